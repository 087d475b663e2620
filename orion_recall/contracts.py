"""What crosses the bus. These models are the source of the JSON Schemas in contracts/.

Input is read leniently where names go (short and long ones, unknown fields are ignored and counted) and
strictly where types go: a wrong type in a known field is an error that names the field. Output always
uses the long names. A reply to a query without `options` carries the founding document's fields only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timezone
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from orion_recall.contracts_confidence import CascadeV1, ConfidenceV1, NoAnswerV1
from orion_recall.errors import InvalidMessage
from orion_recall.text import storable
from orion_recall.values import Outcome, SourceName, SourceStatus
from orion_recall.zones import time_zone

M = TypeVar("M", bound=BaseModel)

QUERY_KIND = "recall.query.v1"
REPLY_KIND = "recall.reply.v1"
DECISION_KIND = "recall.decision.v1"
STORE_KIND = "memory.store.v1"
RECEIPT_KIND = "memory.receipt.v1"

MAX_MEMORIES_PER_STORE = 1000


def _moment(value: object, *, naive_is_utc: bool) -> datetime:
    if isinstance(value, bool) or value is None:
        raise ValueError("expected a time: ISO 8601 or epoch seconds")
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value / 1000 if abs(value) >= 1e11 else value, UTC)
        except (OverflowError, ValueError, OSError) as error:
            raise ValueError("the epoch time is out of range") from error
    moment = value
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise ValueError("not an ISO 8601 time, such as 2026-03-01T09:30:00Z") from error
    if not isinstance(moment, datetime):
        raise ValueError("expected a time: ISO 8601 or epoch seconds")  # noqa: TRY004 (pydantic wants ValueError)
    if moment.tzinfo is None:
        if not naive_is_utc:
            raise ValueError("the time has no zone: append Z or an offset such as +02:00")
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time is out of range") from error


def zoned_moment(value: object) -> datetime:
    """A time with a zone, as UTC. Epoch numbers from 1e11 on are read as milliseconds."""
    return _moment(value, naive_is_utc=False)


def moment_as_told(value: object) -> datetime:
    """A time with a zone, at the offset that it was told with: words like "yesterday" are relative to that."""
    moment = zoned_moment(value)
    try:
        told = datetime.fromisoformat(value) if isinstance(value, str) else value
        offset = told.utcoffset() if isinstance(told, datetime) else None
        return moment.astimezone(timezone(offset)) if offset else moment
    except (OverflowError, ValueError):
        return moment


def _zone_name(value: object) -> object:
    if isinstance(value, str):
        time_zone(value)
    return value


def envelope_moment(value: object) -> datetime:
    """A time of an envelope: a naive one is read as UTC."""
    return _moment(value, naive_is_utc=True)


def _source_object(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _identifier(value: object) -> object:
    """Two names that differ only in what cannot be stored would be one name: one tenant's memories, another's."""
    if isinstance(value, str) and ("\ufffd" in value or storable(value) != value):
        raise ValueError(
            "a name may hold neither NUL, nor half of a surrogate pair, nor U+FFFD, which stands for them"
        )
    return value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number")  # noqa: TRY004 (pydantic wants ValueError)
    return value


_ZonedTime = Annotated[
    str | float,
    Field(description="ISO 8601 with a zone (2026-03-01T09:30:00Z), or epoch seconds (from 1e11 on: milliseconds)"),
]
_EnvelopeTime = Annotated[
    str | float,
    Field(description="ISO 8601 (without a zone: UTC), or epoch seconds (from 1e11 on: milliseconds)"),
]
MomentAsTold = Annotated[datetime, BeforeValidator(moment_as_told, json_schema_input_type=_ZonedTime)]
ZoneName = Annotated[str, Field(min_length=1, max_length=64), BeforeValidator(_zone_name)]
Moment = Annotated[datetime, BeforeValidator(zoned_moment, json_schema_input_type=_ZonedTime)]
EnvelopeMoment = Annotated[datetime, BeforeValidator(envelope_moment, json_schema_input_type=_EnvelopeTime)]
Identifier = Annotated[
    str,
    Field(min_length=1, max_length=512, json_schema_extra={"pattern": "^[^\\u0000\\uFFFD]*$"}),
    BeforeValidator(_identifier),
]
Strings = Annotated[tuple[Annotated[str, Field(max_length=512)], ...], Field(strict=False, max_length=256)]
MEMORY_KINDS = ("world", "experience", "opinion", "observation", "procedure", "plan", "task")
# Which further ones there are is the settings' word: they are checked where a message is served.
MemoryKind = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description=f"{', '.join(MEMORY_KINDS)}, or one of those that the worker adds (ORION_MEMORY_KINDS)",
    ),
]
ScopeName = Literal["session", "user", "global"]
BudgetName = Literal["low", "mid", "high"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, populate_by_name=True)


class EnvelopeSource(_Message):
    """Who sent a message."""

    name: str
    node: str | None = None
    version: str | None = None
    instance: str | None = None


class Envelope(_Message):
    """The Titanium envelope. Short names (`corr_id`, `event`, `service`, `ts`) are accepted on input."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, populate_by_name=True, serialize_by_alias=True
    )

    schema_name: str = Field(default="orion.envelope", alias="schema")
    schema_version: str = "2.0.0"
    id: str | None = None
    correlation_id: str | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("correlation_id", "corr_id")
    )
    kind: str | None = Field(default=None, validation_alias=AliasChoices("kind", "event"))
    source: (
        Annotated[EnvelopeSource, BeforeValidator(_source_object, json_schema_input_type=EnvelopeSource | str)]
        | None
    ) = Field(default=None, validation_alias=AliasChoices("source", "service"))
    created_at: EnvelopeMoment | None = Field(default=None, validation_alias=AliasChoices("created_at", "ts"))
    ttl_ms: int | None = Field(
        default=None, ge=0, le=2**53, description="milliseconds from the stream entry's own id"
    )
    reply_to: str | None = None
    trace: dict[str, JsonValue] | None = Field(default=None, description="W3C traceparent and tracestate")
    causality_chain: Annotated[tuple[JsonValue, ...], Field(strict=False)] = ()
    payload: dict[str, JsonValue]


class Include(_Message):
    """Further parts of a reply, each on request."""

    trace: bool = False
    entities: bool = False
    chunks: bool = False


class RecallOptionsV1(_Message):
    """What a caller may change for one query. Anything absent is the profile's."""

    tenant: Identifier | None = None
    scope: ScopeName | None = None
    user: Identifier | None = None
    k: int | None = Field(default=None, ge=1, le=1000, description="items at most")
    budget: BudgetName | None = Field(default=None, description="how deep: 100, 300 or 1000 candidates")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    min_score: float | None = Field(default=None, ge=0, le=1)
    kinds: Annotated[tuple[MemoryKind, ...], Field(strict=False)] = ()
    tags: Strings = ()
    since: Moment | None = None
    until: Moment | None = None
    as_of: MomentAsTold | None = Field(default=None, description='"now" for this query')
    timezone: ZoneName | None = Field(
        default=None,
        description="IANA zone or offset in which the query's days begin (Europe/Berlin, +02:00); "
        "else the offset of as_of, else UTC",
    )
    exclude: Strings = Field(default=(), description="ids of memories to leave out, as items have them")
    cascade: bool | None = Field(
        default=None,
        description="whether further layers of memory are searched while the answer is not sure enough",
    )
    confidence_threshold: float | None = Field(
        default=None, ge=0, le=1, description="of a cascade: the confidence under which it goes on"
    )
    max_cascade_depth: int | None = Field(
        default=None,
        ge=0,
        le=6,
        description="of a cascade: how many times next layers may be asked; 0: only the first",
    )
    include: Include | None = None


class RecallQueryV1(_Message):
    """One question to memory. Only `fragment` is required."""

    fragment: str = Field(min_length=1)
    verb: str | None = Field(default=None, max_length=512, description="metadata; never searched for")
    intent: str | None = Field(default=None, max_length=4096, description="its words join the search")
    session_id: Identifier | None = None
    node_id: Identifier | None = None
    profile: str | None = Field(default=None, max_length=128)
    reply_to: str | None = None
    options: RecallOptionsV1 | None = None


class ErrorInfo(_Message):
    """Why there is no answer; `type` is the decision's outcome."""

    type: Literal["invalid", "expired", "refused", "failed"]
    message: str


class MemoryItemV1(_Message):
    """One recalled memory. The fields after `tags` are there only when the query carried `options`."""

    id: str = Field(description="the memory's id; of a mapped store its name, a colon and the id there: notes:0")
    source: SourceName
    source_ref: str | None = Field(
        description="where it is from: a mapped store's name; else the memory's `source`, or what it was found in"
    )
    uri: str | None
    score: float
    ts: float | None = Field(description="epoch seconds, or null when undated")
    title: str | None
    snippet: str
    tags: list[str]
    kind: str | None = None
    speaker: str | None = None
    session_id: str | None = None
    score_parts: dict[str, float] | None = None
    ranks: dict[str, int] | None = None
    entities: list[str] | None = None
    chunk: str | None = Field(default=None, description="the whole text of the memory")
    confidence: ConfidenceV1 | None = None
    layer: str | None = Field(default=None, description="of a cascade: the layer of memory it comes from")


class SourceStats(_Message):
    """How one source did in one recall; under `rerank` how the reranker did (`count`: memories it judged)."""

    status: SourceStatus
    count: int
    ms: float
    error: str | None = None
    stood_in: str | None = Field(
        default=None, description="what the hits come from when the source itself failed or was late: record"
    )


class BundleStats(_Message):
    """What the recall cost and where its hits came from; all after `profile` only when the query had `options`."""

    backend_counts: dict[str, int]
    latency_ms: float
    profile: str
    outcome: Outcome | None = None
    decision_id: str | None = None
    tokens: int | None = None
    dropped: dict[str, int] | None = None
    sources: dict[str, SourceStats] | None = None
    trace: dict[str, JsonValue] | None = None
    confidence: float | None = Field(default=None, description="how sure the answer is; null when it is empty")
    no_answer: NoAnswerV1 | None = None


class MemoryBundleV1(_Message):
    """Prompt-ready memory: `rendered` is a list of one-line bullets, "" when nothing was found."""

    rendered: str
    items: list[MemoryItemV1]
    stats: BundleStats


class RecallReplyV1(_Message):
    """The answer to one query; `error` is there only when there is no answer to give."""

    bundle: MemoryBundleV1
    error: ErrorInfo | None = None


class SelectedV1(_Message):
    """One selected item as the decision log keeps it."""

    id: str
    source: SourceName
    score: float
    parts: dict[str, float]
    ranks: dict[str, int]
    confidence: ConfidenceV1 | None = None
    layer: str | None = None


class RecallDecisionV1(_Message):
    """What was found, kept and dropped, why, by which source, in how many ms, under which profile."""

    id: str
    corr_id: str
    session_id: str | None = None
    node_id: str | None = None
    verb: str | None = None
    profile: str
    query: str = Field(
        description="the fragment's first 4,000 characters; blake2b:… or empty where query text is not kept"
    )
    selected_ids: list[str]
    backend_counts: dict[str, int]
    latency_ms: float
    dropped: dict[str, int]
    created_at: EnvelopeMoment
    outcome: Outcome
    error: str | None = None
    tenant: str | None = None
    scope: str | None = None
    user_id: str | None = None
    intent: str | None = None
    profile_requested: str | None = None
    profile_hash: str | None = None
    profile_fallback: bool = False
    sources: dict[str, SourceStats] = Field(default_factory=dict[str, SourceStats])
    selected: list[SelectedV1] = Field(default_factory=list[SelectedV1])
    stage_ms: dict[str, float] = Field(default_factory=dict[str, float])
    tokens: int = 0
    query_chars: int = 0
    unknown_fields: int = 0
    deliveries: int = 1
    entry_id: str | None = None
    reply_to: str | None = None
    trace_id: str | None = None
    worker: str | None = None
    understood: dict[str, JsonValue] | None = Field(
        default=None, description="what was understood of the query: its times, class, language, people, entities"
    )
    confidence: float | None = Field(default=None, description="how sure the answer is; null when there is no item")
    cascade: CascadeV1 | None = Field(default=None, description="the way through the layers, where there was one")
    no_answer: NoAnswerV1 | None = None
    strategy: str | None = Field(
        default=None, description="the class of question whose strategy of the profile was used; null: none"
    )
    shadow_of: str | None = Field(
        default=None, description="the decision that answered, where this one was taken in its shadow"
    )


class MemoryV1(_Message):
    """One memory to store; `id` is unique in its tenant. Stored twice with equal content, nothing changes."""

    id: Identifier
    text: str = Field(min_length=1, max_length=100_000)
    tenant: Identifier | None = None
    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    session_id: Identifier | None = None
    node_id: Identifier | None = None
    kind: MemoryKind = "experience"
    speaker: Annotated[str, Field(max_length=256)] | None = None
    title: Annotated[str, Field(max_length=2048)] | None = None
    occurred_at: Moment | None = None
    occurred_until: Moment | None = None
    mentioned_at: Moment | None = None
    tags: Strings = ()
    entities: Strings = ()
    source: Annotated[str, Field(max_length=512)] | None = None
    uri: Annotated[str, Field(max_length=4096)] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    confidence: Annotated[float, Field(ge=0, le=1, strict=False), BeforeValidator(_no_bool)] | None = Field(
        default=None, description="how sure the sender is"
    )
    supersedes: Strings = Field(default=(), description="ids of memories that this one takes the place of")


class MemoryStoreV1(_Message):
    """A batch of memories. Each is judged alone: one bad memory does not hold up the others."""

    memories: Annotated[
        tuple[dict[str, JsonValue], ...],
        Field(strict=False, min_length=1, max_length=MAX_MEMORIES_PER_STORE),
    ]
    reply_to: str | None = None


class MemoryVerdictV1(_Message):
    """What became of one memory of a batch; `matched` is one that a dry run found and left as it is."""

    id: str | None
    status: Literal["stored", "unchanged", "conflict", "rejected", "updated", "deleted", "missing", "matched"]
    reason: str | None = None


class MemoryReceiptV1(_Message):
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


def read_message(model: type[M], data: object, where: str) -> M:
    """The validated message; else InvalidMessage that names every offending field under `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidMessage(
            describe(error, where), without_values=describe(error, where, with_values=False)
        ) from error


def describe(error: ValidationError, where: str = "", *, with_values: bool = True) -> str:
    """A validation error as one line: `payload.verb: Input should be a valid string (got 7)`."""
    parts: list[str] = []
    for problem in error.errors(include_url=False)[:8]:
        path = ".".join(str(step) for step in (where, *problem["loc"]) if step != "")
        given = "" if problem["type"] == "missing" or not with_values else f" (got {_short(problem['input'])})"
        parts.append(f"{path}: {problem['msg'].removeprefix('Value error, ')}{given}")
    return "; ".join(parts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def count_unknown(model: type[BaseModel], data: Mapping[str, object]) -> int:
    """How many fields of `data`, nested models included, the contract does not know."""
    known = _known_fields(model)
    unknown = 0
    for key, value in data.items():
        if key not in known:
            unknown += 1
        elif isinstance(value, dict) and (nested := known[key]) is not None:
            unknown += count_unknown(nested, cast("dict[str, object]", value))
    return unknown


@cache
def _known_fields(model: type[BaseModel]) -> Mapping[str, type[BaseModel] | None]:
    """Every name that a field may come under, with the model inside it."""
    return {
        alias: _nested_model(info)
        for name, info in model.model_fields.items()
        for alias in _input_names(name, info)
    }


def _input_names(name: str, info: FieldInfo) -> list[str]:
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _nested_model(info: FieldInfo) -> type[BaseModel] | None:
    stack: list[Any] = [info.annotation]
    while stack:
        annotation = stack.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if get_origin(annotation) is not dict:  # a mapping's keys are data, not fields
            stack.extend(get_args(annotation))
    return None
