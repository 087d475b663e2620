"""Queries, their replies and decisions; hints of newer executors that cannot be read are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from orion_recall.contracts import fields as f
from orion_recall.values import LedBy, Outcome, SourceStatus, SuccessionReason

Share = Annotated[float, Field(ge=0, le=1)]
MergeStrategy = Literal["confidence_weighted", "layer_weighted", "recency_weighted", "score_weighted"]
"""How the items of several layers became one order: by a sum in which one part weighs most."""
NotAsked = Literal["other_kinds", "other_tags", "no_session", "no_user", "no_time"]
"""Why a layer was not searched: the query wants other kinds or tags, has no session or user, no time was left."""
Trigger = Literal[
    "sure", "not_asked", "nothing_found", "relevance_unknown", "relevance_below_minimum",
    "confidence_below_threshold",
]  # fmt: skip
NoAnswerReason = Literal[
    "no_words", "greeting", "thanks", "farewell", "acknowledgement", "small_talk", "below_min_probability",
    "below_min_confidence", "below_min_score",
]  # fmt: skip
"""Nothing to search for (no word, or one of the kinds of small talk), or a number below the profile's minimum."""


class ConfidenceV1(f.Message):
    """Confidence of an item: 0.35 relevance + 0.25 quality + 0.15 recency + 0.15 consistency + 0.1 completeness."""

    overall: Share
    level: Literal["low", "medium", "high"] = Field(description="low under 0.5, medium under 0.75, else high")
    semantic_relevance: Share = Field(description="how close it is to the question")
    source_quality: Share = Field(description="of its kind, its sources, its sender and the feedback on it")
    recency: Share
    consistency: Share = Field(description="whether its tags or another memory confirm or doubt it")
    completeness: Share = Field(description="how much is known of it: time, speaker or title, place, names, tags")


class CascadeStepV1(f.Message):
    """One layer of a cascade, in the order in which they were asked; those of one depth were asked together."""

    layer: str
    depth: int = Field(description="0: the first layer; 1: those that it names, and so on")
    hits: int = Field(description="memories that its sources found")
    confidence: Share | None = Field(description="of its first item; null when there is none")
    relevance: Share | None = Field(
        default=None, description="the semantic relevance of its first item; null where only words tell of it"
    )
    ms: float
    late: list[str] = Field(description="sources that did not answer in the time that was left")
    not_asked: NotAsked | None = Field(default=None, description="why it was not searched")


class CascadeV1(f.Message):
    """The path of a cascade through the layers of memory, and why it went on and stopped."""

    primary_layer: str
    primary_confidence: Share | None
    cascaded_to: list[str] = Field(description="layers that were asked after the first, in order of precedence")
    cascade_confidences: list[Share | None] = Field(description="of their first items, in the same order")
    final_confidence: Share | None
    threshold: Share
    min_relevance: Share = Field(default=0.0, description="the relevance under which no layer is sure enough")
    depth: int = Field(description="how many times next layers were asked")
    max_depth: int
    ended: Literal["confident", "depth", "no_layer", "deadline"] = Field(description="why it ended")
    trigger: Trigger = Field(description="what the first layer's answer was against threshold and minimum")
    merge_strategy: MergeStrategy | None = Field(
        default=None, description="the part that weighs most in the merged score; null: nothing was merged"
    )
    combined: dict[str, int] = Field(description="items of each layer in the answer")
    path: list[CascadeStepV1]


class NoAnswerV1(f.Message):
    """The reason for an empty bundle although memories were found, or nothing was searched (a greeting)."""

    reason: NoAnswerReason
    value: float | None = Field(default=None, description="the number that is below its minimum")
    minimum: float | None = None
    near_misses: int = Field(description="items that would have been handed over")


QUERY_KIND = "recall.query.v1"
QUERY_ALIASES = ("recall.query.request",)
"""Further kinds that a query may name."""
REPLY_KIND = "recall.reply.v1"

# They have no effect here. Where they hold something they are counted as ignored fields.
IGNORED_HINTS = (
    "profile_explicit", "recall_phase", "retrieval_intent", "task_hints", "seed_crystallization_id",
    "active_packet_digest_budget", "concept_region_digest_budget",
)  # fmt: skip


class Include(f.ClosedMessage):
    """Further parts of a reply, on request."""

    trace: bool = Field(default=False, description="how candidates were scored; no use of memories is counted")
    entities: bool = Field(default=False, description="the entities of each item, and what the items tell of each")
    chunks: bool = Field(default=False, description="the passage of each item that fits the query best")
    layers: bool = Field(default=False, description="of a cascade: the items' ids by the layer they come from")
    metadata: bool = Field(default=False, description="what each item's sender gave, read from Postgres")


class RecallOptionsV1(f.ClosedMessage):
    """Options of one query. Anything absent is the profile's; unknown ones are refused."""

    former: ClassVar = {
        "context": "is no longer read: put the names into the fragment",
        "fact_type": "is no longer read: it is called kinds",
    }

    tenant: f.Identifier | None = None
    scope: f.ScopeName | None = None
    user: f.Identifier | None = None
    agent_id: f.Identifier | None = Field(default=None, description="only memories stored with this agent_id")
    run_id: f.Identifier | None = Field(default=None, description="only memories that were stored with this run_id")
    k: int | None = Field(
        default=None, ge=1, le=1000, description="items at most; a larger one lifts the caps per source"
    )
    budget: f.BudgetName | None = Field(default=None, description="how deep: 100, 300 or 1000 candidates")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    min_score: float | None = Field(default=None, ge=0, le=1)
    kinds: f.Kinds = Field(default=(), description="of up to eight, each has result lists of its own")
    tags: f.Strings = ()
    since: f.Moment | None = None
    until: f.Moment | None = None
    as_of: f.MomentAsTold | None = Field(
        default=None, description='"now" for this query: memories of a later time are not seen'
    )
    timezone: f.ZoneName | None = Field(
        default=None, description="zone of the query's days (Europe/Berlin, +02:00); else that of as_of, or UTC"
    )
    exclude: f.Strings = Field(default=(), description="ids of memories to leave out, as items have them")
    cascade: bool | None = Field(default=None, description="whether further layers are searched when unsure")
    confidence_threshold: float | None = Field(
        default=None, ge=0, le=1, description="of a cascade: the confidence under which it goes on"
    )
    max_cascade_depth: int | None = Field(
        default=None, ge=0, le=6, description="how many times next layers may be asked"
    )
    merge_strategy: Literal["weighted", "confidence_weighted"] | None = Field(
        default=None, description="of a cascade: how the items of several layers become one order"
    )
    no_answer: bool | None = Field(
        default=None, description="whether an answer that is not sure enough is withheld; absent: the profile's"
    )
    include: Include | None = None


class ExcludedTurn(f.Message):
    """The turn to answer, whose memories are left out.

    By `active_turn_ids`; and what says `active_turn_text` within three minutes of `active_turn_ts` (epoch seconds),
    or of now.
    """

    active_turn_ids: Annotated[tuple[str, ...], Field(strict=False)] = ()
    active_turn_text: str = ""
    active_turn_ts: float | None = None


def as_turn(value: object) -> object:
    """The readable parts of the hint; None where it is no object."""
    if isinstance(value, dict):
        return _parts(cast("dict[str, object]", value))
    return value if isinstance(value, ExcludedTurn) else None


def _parts(turn: Mapping[str, object]) -> dict[str, object]:
    ids, text, ts = (turn.get(name) for name in ExcludedTurn.model_fields)
    told = cast("list[object]", ids) if isinstance(ids, list | tuple) else []
    try:
        seconds = f.zoned_moment(ts).timestamp()
    except ValueError:
        seconds = None
    return {
        "active_turn_ids": [one for one in told if isinstance(one, str) and one],
        "active_turn_text": text if isinstance(text, str) else "",
        "active_turn_ts": seconds,
    }


def as_text(value: object) -> object:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


_Turn = Annotated[ExcludedTurn | None, BeforeValidator(as_turn, json_schema_input_type=JsonValue)]
_Lane = Annotated[str | None, BeforeValidator(as_text, json_schema_input_type=JsonValue)]


class RecallQueryV1(f.Message):
    """One question to memory. Only `fragment` is required; another field that is "" or null is absent.

    Nothing is searched for a fragment without a word: the answer is empty.
    """

    fragment: str
    verb: str | None = Field(default=None, max_length=512, description="metadata; never searched for")
    intent: str | None = Field(default=None, max_length=4096, description="its words join the search")
    session_id: f.OptionalIdentifier = None
    node_id: f.OptionalIdentifier = None
    profile: str | None = Field(default=None, max_length=128)
    reply_to: str | None = None
    options: RecallOptionsV1 | None = None
    exclude: _Turn = Field(default=None, description="the turn that is being answered: its ids, text and time")
    lane: _Lane = Field(
        default=None, description="a visibility lane, such as chat or social: what it means ORION_QUERY_LANE says"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, data: object) -> object:
        return f.without_empty(data, required="fragment")


def ignored_fields(payload: Mapping[str, object]) -> int:
    """How many fields of a query's payload are not used: unknown ones, and hints that mean nothing here."""
    named = {name: value for name, value in payload.items() if name not in IGNORED_HINTS}
    count = f.count_unknown(RecallQueryV1, named) + sum(bool(payload.get(name)) for name in IGNORED_HINTS)
    lane, turn = payload.get("lane"), payload.get("exclude")
    count += bool(lane) and as_text(lane) is None
    if not isinstance(turn, dict):
        return count + bool(turn)
    given = cast("dict[str, object]", turn)
    read = _parts(given)
    unread = {name: read[name] != given.get(name) for name in ("active_turn_ids", "active_turn_text")}
    unread["active_turn_ts"] = read["active_turn_ts"] is None
    return count + sum(bool(given.get(name)) and is_unread for name, is_unread in unread.items())


class MemoryItemV1(f.Message):
    """One recalled memory. The fields after `tags` are there only when the query carried `options`."""

    id: str = Field(description="the memory's id; of a mapped store its name, a colon and the id there: notes:0")
    source: f.SourceName
    source_ref: str | None = Field(description="from where: a store's name, a table, or the memory's `source`")
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
    chunk: str | None = Field(default=None, description="the passage of the memory that fits best")
    confidence: ConfidenceV1 | None = None
    layer: str | None = Field(default=None, description="of a cascade: the layer of memory it comes from")
    metadata: dict[str, JsonValue] | None = Field(
        default=None, description="what each item's sender gave, read from Postgres"
    )


class SourceStats(f.Message):
    """The status of one source in one recall; under `rerank` of the reranker (`count`: memories it judged)."""

    status: SourceStatus
    count: int
    ms: float
    error: str | None = None
    stood_in: str | None = Field(default=None, description="what the hits come from when the source failed: record")


class BundleStats(f.Message):
    """The costs of a recall and the sources of its hits; all after `profile` only when the query had `options`."""

    backend_counts: dict[str, int]
    latency_ms: Annotated[int, Field(ge=0)] | float = Field(
        description="whole milliseconds; with a fraction when the query had `options`"
    )
    profile: str
    outcome: Outcome | None = None
    decision_id: str | None = None
    tokens: int | None = None
    dropped: dict[str, int] | None = None
    sources: dict[str, SourceStats] | None = None
    trace: dict[str, JsonValue] | None = None
    confidence: float | None = Field(default=None, description="how sure the answer is; null without an item")
    no_answer: NoAnswerV1 | None = None
    unsure: bool | None = Field(default=None, description="whether nothing clearly answers")
    probability: float | None = Field(
        default=None, description="the probability that anything found answers; null where it cannot be told"
    )


class ChunkInfoV1(f.Message):
    """The passage of an item that fits the query best; the whole text where that is one passage."""

    id: str = Field(description="the memory's id, `#` and `index`")
    memory_id: str
    index: int = Field(ge=0, description="the passage's place in the memory's text, from 0")
    start: int = Field(ge=0, description="where it begins in the memory's text, in characters")
    end: int = Field(ge=0, description="where it ends, in characters")
    text: str


class EntityStateV1(f.Message):
    """What the items of an answer tell of an entity that they name."""

    name: str = Field(description="its name; of names that were merged, the one that is kept")
    memory_count: int = Field(ge=1, description="how many of the items name it")
    memory_ids: list[str]
    observations: list[str] = Field(description="the snippets of those items, without repetitions")


class MemoryBundleV1(f.Message):
    """Prompt-ready memories: `rendered` is a list of one-line bullets, "" when nothing was found.

    `entities` and `chunks`, by name and by id, are there only when the query's `include` asks for them.
    """

    rendered: str
    items: list[MemoryItemV1]
    stats: BundleStats
    layers: dict[str, list[str]] | None = Field(
        default=None, description="of a cascade, with `include.layers`: ids by layer, in the order of search"
    )
    entities: dict[str, EntityStateV1] | None = None
    chunks: dict[str, ChunkInfoV1] | None = None


class RecallReplyV1(f.Message):
    """The answer to one query; `error` says why there is none, to a query that had `options`.

    A caller without `options` may forbid further fields: to it such a reply is an empty bundle.
    """

    bundle: MemoryBundleV1
    error: f.ErrorInfo | None = None


DECISION_KIND = "recall.decision.v1"
V1_FIELDS = (
    "id", "corr_id", "session_id", "node_id", "verb", "profile", "query", "selected_ids", "dropped",
    "backend_counts", "latency_ms", "created_at",
)  # fmt: skip


class SuccessionV1(f.Message):
    """A stated succession of an item: the other memory, the reason's code, and the ids of what states it."""

    id: str
    reason: SuccessionReason
    evidence: list[str] = Field(default_factory=list[str])


_Succeeded = Annotated[
    SuccessionV1 | None,
    Field(description="the memory whose place, score and parts it has, as it is stated to succeed it"),
]
_Successor = Annotated[SuccessionV1 | None, Field(description="its successor")]


class SelectedV1(f.Message):
    """One selected item as the decision log keeps it."""

    id: str
    source: f.SourceName
    score: float
    parts: dict[str, float]
    ranks: dict[str, int]
    confidence: ConfidenceV1 | None = None
    layer: str | None = None
    tokens: int | None = Field(default=None, description="of its line in the rendered text; 0: another's names it")
    succeeds: _Succeeded = None
    ended_by: _Successor = None


class CandidateV1(f.Message):
    """One candidate of a recall as the decision log keeps it; of a memory that may not be seen there is none."""

    id: str
    source: f.SourceName = Field(description="the source that ranked it best, or that of what led to it")
    ranks: dict[str, int] = Field(description="its rank in every source that found it, from 1")
    fused: float = Field(description="its score after the fusion")
    place: int | None = Field(default=None, description="its place in the final order, from 1; null: not in it")
    score: float | None = Field(default=None, description="its final score; null: it was dropped before it had one")
    parts: dict[str, float] = Field(default_factory=dict[str, float], description="the parts of the score, 0 to 1")
    led_by: LedBy | None = Field(default=None, description="what led to it, where no source found it")
    weights: dict[str, float] = Field(
        default_factory=dict[str, float], description="their weights; the score is the mean of the parts by these"
    )
    kept: bool = Field(default=False, description="whether it is in the bundle")
    dropped: str | None = Field(default=None, description="why it is not: near_duplicate, token_budget and so on")
    dropped_for: str | None = Field(default=None, description="the memory that was kept in its place, if any")
    layer: str | None = None
    succeeds: _Succeeded = None
    ended_by: _Successor = None


class CanaryV1(f.Message):
    """Which of two profiles answered a query, where the profile that it came to has a canary."""

    trial: str = Field(description="the same until either profile is edited")
    profile: str = Field(description="the control: the profile that the query came to")
    canary: str = Field(description="the profile that answers a share of the sessions instead")
    variant: Literal["canary", "control"] = Field(description="which of the two answered")
    share: Annotated[float, Field(ge=0, le=1)] = Field(description="the share of the sessions that it answers")


class RecallDecisionV1(f.Message):
    """The decision on a query: items found, kept and dropped, with reasons, sources, times and profile."""

    id: str
    corr_id: str
    session_id: str | None = None
    node_id: str | None = None
    verb: str | None = None
    profile: str
    query: str = Field(description="the fragment's first 4,000 characters, its hash, or empty")
    selected_ids: list[str]
    backend_counts: dict[str, int]
    latency_ms: f.WholeMs
    dropped: dict[str, int]
    created_at: f.EnvelopeMoment
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
    weights: dict[str, float] | None = Field(
        default=None, description="the weights of the parts of `selected`; null: none, or several sets"
    )
    stage_ms: dict[str, float] = Field(
        default_factory=dict[str, float], description="of every stage, with fractions; `total` is all of it"
    )
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
    confidence: float | None = Field(default=None, description="how sure the answer is; null without an item")
    cascade: CascadeV1 | None = Field(default=None, description="the way through the layers, where there was one")
    no_answer: NoAnswerV1 | None = None
    strategy: str | None = Field(
        default=None, description="the class and shape whose strategies were used (`temporal+list`); null: none"
    )
    shadow_of: str | None = Field(default=None, description="the decision that answered, where this is a shadow's")
    answer_probability: float | None = Field(
        default=None, description="the probability that anything found answers; null where it cannot be told"
    )
    canary: CanaryV1 | None = Field(
        default=None, description="which profile answered and why, where the profile that was asked has a canary"
    )
    asked: dict[str, JsonValue] | None = Field(
        default=None,
        description="what was asked beside the text: `options` as given, `turn` and `lane` where given, and of "
        "what was recalled `scope`, `clock` (what was now), `zone`, `limits`; words where query text is kept",
    )
    read_at: dict[str, int] | None = Field(
        default=None, description="the outbox positions that `index` and `graph` had applied when the search began"
    )
    build: dict[str, str] | None = Field(
        default=None, description="what decided: `version`, `model`, `weights` (their hash, short), `extractor`"
    )
    not_replayable: str | None = Field(default=None, description="why it cannot be asked again; null: it can")
    candidates: list[CandidateV1] | None = Field(default=None, description="the candidates, best first, where kept")
    unsure: bool = Field(default=False, description="whether nothing clearly answers: only the nearest are given")


def v1_decision(decision: RecallDecisionV1) -> dict[str, Any]:
    """The decision as JSON with the V1 fields only, for readers that forbid others."""
    return decision.model_dump(mode="json", include=set(V1_FIELDS))
