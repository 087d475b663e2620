"""Messages that store, update and delete memories, their receipts, and feedback on recalls.

Of a patch and of `where` every field must be known: an unknown one would change or match more than was meant.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, create_model, model_validator

from orion_recall.contracts import fields as f

STORE_KIND = "memory.store.v1"
RECEIPT_KIND = "memory.receipt.v1"
UPDATE_KIND = "memory.update.v1"
DELETE_KIND = "memory.delete.v1"
FEEDBACK_KIND = "recall.feedback.v1"
FEEDBACK_RECEIPT_KIND = "recall.receipt.v1"

MAX_MEMORIES_PER_STORE = 1000
MAX_TEXT_CHARS = 100_000
MAX_WAIT_MS = 30_000


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number")  # noqa: TRY004 (pydantic wants ValueError)
    return value


class MemoryV1(f.Message):
    """One memory to store; `id` is unique in its tenant. Stored twice with equal content, nothing changes."""

    id: f.Identifier
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    tenant: f.Identifier | None = None
    user_id: f.Identifier | None = None
    agent_id: f.Identifier | None = None
    run_id: f.Identifier | None = None
    session_id: f.Identifier | None = None
    node_id: f.Identifier | None = None
    kind: f.MemoryKind | None = Field(default=None, description="without one it is read from the text")
    speaker: Annotated[str, Field(max_length=256)] | None = None
    title: Annotated[str, Field(max_length=2048)] | None = None
    occurred_at: f.MemoryMoment | None = None
    occurred_until: f.MemoryMoment | None = None
    mentioned_at: f.MemoryMoment | None = None
    tags: f.Strings = ()
    entities: f.Strings = ()
    source: Annotated[str, Field(max_length=512)] | None = None
    uri: Annotated[str, Field(max_length=4096)] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    confidence: Annotated[float, Field(ge=0, le=1, strict=False), BeforeValidator(_no_bool)] | None = Field(
        default=None, description="how sure the sender is"
    )
    supersedes: f.Strings = Field(default=(), description="ids of memories that this one takes the place of")


# The elements of a batch stay open, so that one bad element is rejected alone; the JSON Schema describes each.
_Size = Field(strict=False, min_length=1, max_length=MAX_MEMORIES_PER_STORE)
_Batch = Annotated[
    tuple[dict[str, JsonValue], ...],
    _Size,
    f.at_most(MAX_MEMORIES_PER_STORE, described_as=Annotated[tuple[MemoryV1, ...], _Size]),
]


_Wait = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_WAIT_MS,
        description="how long the receipt waits until the next recall goes by it, on any worker; 0: not at all; "
        "left out: ORION_ACKNOWLEDGE_MS",
    ),
]


class MemoryStoreV1(f.Message):
    """A batch of memories. Each is judged alone: one bad memory does not hold up the others."""

    memories: _Batch
    wait_ms: _Wait | None = None
    reply_to: str | None = None


class MemoryVerdictV1(f.Message):
    """The verdict on one memory of a batch; `matched` is one that a dry run found and left as it is."""

    id: str | None
    status: Literal["stored", "unchanged", "conflict", "rejected", "updated", "deleted", "missing", "matched"]
    reason: str | None = None


class MemoryReceiptV1(f.Message):
    """The answer to `memory.store.v1`, `memory.update.v1` and `memory.delete.v1`.

    `position` is the outbox position at which all of it is projected. The fields after it are left out where they
    have nothing to say.
    """

    stored: int
    unchanged: int
    conflict: int
    rejected: int
    position: int | None = None
    updated: int = 0
    deleted: int = 0
    missing: int = 0
    matched: int | None = Field(default=None, description="memories that `where` matches, in a dry run")
    pending: bool | None = Field(
        default=None,
        description="false: every worker's next recall goes by it; true: some copy does not have it yet, and may "
        "miss what is new; what was changed or deleted is left out meanwhile",
    )
    pending_in: list[str] = Field(
        default_factory=list[str],
        description="what does not have it yet: index, graph; left out where that cannot be told",
    )
    results: list[MemoryVerdictV1]
    error: f.ErrorInfo | None = None


# The identity of a memory, and what only a store may state.
UNCHANGEABLE = frozenset(("id", "tenant", "supersedes"))
CHANGEABLE = tuple(name for name in MemoryV1.model_fields if name not in UNCHANGEABLE)

_Actor = Annotated[str, Field(min_length=1, max_length=256, description="who asks for it, for the history")]
_Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        description="the same request under the same key is answered with the first receipt and changes nothing",
    ),
]
_Count = Annotated[int, Field(ge=0, description="of `where`: how many it must match; left out: a dry run")]
_Ids = Annotated[
    tuple[f.Identifier, ...],
    Field(strict=False, max_length=MAX_MEMORIES_PER_STORE),
    f.at_most(MAX_MEMORIES_PER_STORE),
]


class MemoryWhereV1(f.ClosedMessage):
    """Conditions on memories: all given ones must hold; of a list, one of its values is enough.

    Deleted and replaced memories are never among them.
    """

    text: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="words that title, speaker and text must hold, all of them"
    )
    session_id: f.Identifier | None = None
    user_id: f.Identifier | None = None
    agent_id: f.Identifier | None = None
    run_id: f.Identifier | None = None
    speaker: f.Identifier | None = None
    kinds: f.Kinds = ()
    tags: f.Strings = ()
    entities: f.Strings = Field(default=(), description="as written")
    source: f.Identifier | None = None
    since: f.Moment | None = Field(default=None, description="not before; an undated memory is not matched")
    until: f.Moment | None = Field(default=None, description="before; an undated memory is not matched")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not any(getattr(self, name) not in (None, ()) for name in type(self).model_fields):
            raise ValueError(f"give at least one condition: {', '.join(type(self).model_fields)}")
        return self


def _changeable() -> dict[str, Any]:
    """The changeable fields of a memory, each with null for clearing it; the text cannot be cleared."""
    hints = get_type_hints(MemoryV1, include_extras=True)
    return {
        name: (hints[name] if name == "text" else hints[name] | None, Field(default=None)) for name in CHANGEABLE
    }


class _Changes(f.ClosedMessage):
    """Fields to change; null clears one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})


class _Patch(f.ClosedMessage):
    """A memory's id and the fields to change; null clears one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 2})

    id: f.Identifier
    expected_version: int | None = Field(default=None, description="change it only if it is still at this version")


MemoryChangesV1 = create_model("MemoryChangesV1", __base__=_Changes, __doc__=_Changes.__doc__, **_changeable())
MemoryPatchV1 = create_model("MemoryPatchV1", __base__=_Patch, __doc__=_Patch.__doc__, **_changeable())
_Patches = Annotated[
    tuple[dict[str, JsonValue], ...],
    _Size,
    f.at_most(MAX_MEMORIES_PER_STORE, described_as=Annotated[tuple[MemoryPatchV1, ...], _Size]),
]
_OpenChanges = Annotated[
    dict[str, JsonValue], BeforeValidator(lambda value: value, json_schema_input_type=MemoryChangesV1)
]


class _Changing(f.Message):
    where: MemoryWhereV1 | None = None
    tenant: f.Identifier | None = None
    actor: _Actor | None = None
    idempotency_key: _Key | None = None
    expected_count: _Count | None = None
    wait_ms: _Wait | None = None
    reply_to: str | None = None

    @model_validator(mode="after")
    def _is_counted(self) -> Self:
        if self.expected_count is not None and self.where is None:
            raise ValueError("expected_count belongs to where")
        return self


class MemoryUpdateV1(_Changing):
    """Memories to change: each by its id, or by `set` all that match `where`. Each is judged alone.

    A field that is null is cleared; one that is left out stays as it is.
    """

    memories: _Patches | None = None
    set: _OpenChanges | None = Field(default=None, description="fields to change of all that `where` matches")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.memories is None) == (self.where is None) or (self.where is None) != (self.set is None):
            raise ValueError("give either memories, or where and set")
        return self


class MemoryDeleteV1(_Changing):
    """Memories to delete: by id, or all that match `where`. A deleted memory never comes back.

    The record keeps its text and history, unless `erase` is true.
    """

    ids: Annotated[_Ids, Field(min_length=1)] | None = None
    reason: Annotated[str, Field(max_length=2048)] | None = None
    erase: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.ids is None) == (self.where is None):
            raise ValueError("give either ids or where")
        return self


class RecallFeedbackV1(f.Message):
    """Feedback on a recall: which of its memories were used, and which were wrong."""

    decision_id: f.Identifier | None = Field(default=None, description="of the recall: `stats.decision_id`")
    correlation_id: f.Identifier | None = Field(default=None, description="of the recall's own message")
    tenant: f.Identifier | None = None
    used: _Ids = ()
    wrong: _Ids = ()
    note: Annotated[str, Field(max_length=4096)] | None = None
    actor: _Actor | None = None
    reply_to: str | None = None

    @model_validator(mode="after")
    def _about_something(self) -> Self:
        if self.decision_id is None and self.correlation_id is None:
            raise ValueError("give decision_id or correlation_id of the recall")
        if not (self.used or self.wrong or self.note):
            raise ValueError("give at least one of used, wrong, note")
        return self


class RecallReceiptV1(f.Message):
    """The answer to `recall.feedback.v1`."""

    recorded: bool
    error: f.ErrorInfo | None = None
