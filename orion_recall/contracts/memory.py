"""Messages that store memories, and their receipts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from orion_recall.contracts.envelope import ErrorInfo
from orion_recall.contracts.fields import Identifier, MemoryKind, MemoryMoment, Message, Strings, at_most

STORE_KIND = "memory.store.v1"
RECEIPT_KIND = "memory.receipt.v1"

MAX_MEMORIES_PER_STORE = 1000
MAX_TEXT_CHARS = 100_000


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number")  # noqa: TRY004 (pydantic wants ValueError)
    return value


class MemoryV1(Message):
    """One memory to store; `id` is unique in its tenant. Stored twice with equal content, nothing changes."""

    id: Identifier
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    tenant: Identifier | None = None
    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    session_id: Identifier | None = None
    node_id: Identifier | None = None
    kind: MemoryKind | None = Field(
        default=None,
        description="without one it is read from the text, and experience where that says nothing plain",
    )
    speaker: Annotated[str, Field(max_length=256)] | None = None
    title: Annotated[str, Field(max_length=2048)] | None = None
    occurred_at: MemoryMoment | None = None
    occurred_until: MemoryMoment | None = None
    mentioned_at: MemoryMoment | None = None
    tags: Strings = ()
    entities: Strings = ()
    source: Annotated[str, Field(max_length=512)] | None = None
    uri: Annotated[str, Field(max_length=4096)] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    confidence: Annotated[float, Field(ge=0, le=1, strict=False), BeforeValidator(_no_bool)] | None = Field(
        default=None, description="how sure the sender is"
    )
    supersedes: Strings = Field(default=(), description="ids of memories that this one takes the place of")


class MemoryStoreV1(Message):
    """A batch of memories. Each is judged alone: one bad memory does not hold up the others."""

    memories: Annotated[
        tuple[dict[str, JsonValue], ...],
        Field(strict=False, min_length=1, max_length=MAX_MEMORIES_PER_STORE),
        at_most(MAX_MEMORIES_PER_STORE),
    ]
    reply_to: str | None = None


class MemoryVerdictV1(Message):
    """The verdict on one memory of a batch; `matched` is one that a dry run found and left as it is."""

    id: str | None
    status: Literal["stored", "unchanged", "conflict", "rejected", "updated", "deleted", "missing", "matched"]
    reason: str | None = None


class MemoryReceiptV1(Message):
    """The answer to `memory.store.v1`, `memory.update.v1` and `memory.delete.v1`.

    `position` is the outbox position at which all of it is projected. The fields after it are left out where they
    have nothing to say; a store may have `pending`, when its memories take the place of others.
    """

    stored: int
    unchanged: int
    conflict: int
    rejected: int
    position: int | None = None
    updated: int = 0
    deleted: int = 0
    missing: int = 0
    matched: int | None = Field(
        default=None, description="memories that `where` matches; without expected_count: now"
    )
    pending: bool | None = Field(
        default=None,
        description="of a change: false when no registered copy can show what was there before; true: not yet",
    )
    results: list[MemoryVerdictV1]
    error: ErrorInfo | None = None
