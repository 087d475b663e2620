"""Values of search and of the record: frozen types that pass between modules.

    Question -> SearchRequest -> Hit -> SourceReport; then Candidate (`scoring`) -> Selection (`recall.bundle`)

Times are epoch seconds (UTC), intervals are half-open, and `None` means undated. Scores of a source keep its scale;
only the final score of a candidate is on the documented scale of [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple, get_args

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
SourceName = str
"""The name of a retrieval source: one of `source_specs.source_names()`."""
SOURCE_NAME = r"^[a-z][a-z0-9_]{0,31}$"
"""What such a name looks like: it begins keys of profiles."""

SourceStatus = Literal["ok", "empty", "late", "failed", "off"]
Outcome = Literal["invalid", "expired", "refused", "failed", "degraded", "empty", "ok"]
OUTCOMES: tuple[Outcome, ...] = ("invalid", "expired", "refused", "failed", "degraded", "empty", "ok")

TimeKind = Literal["date", "period", "relative", "open"]
TimeOf = Literal["said", "told", "both"]

TimeRange = tuple[float | None, float | None]
"""A half-open interval of epoch seconds; None is without end on that side."""


FIRST_S, LAST_S = -62_135_596_800.0, 253_402_300_799.0
"""The first and the last second of the calendar, the years 1 to 9999, in epoch seconds."""
_DAY_S = 86_400


def in_calendar(seconds: float) -> datetime:
    """The moment (epoch seconds) in UTC; one beyond the calendar is its first or its last second."""
    return datetime.fromtimestamp(min(max(seconds, FIRST_S), LAST_S), UTC)


def clock_in(zone: tzinfo, moment: float) -> datetime:
    """The moment (epoch seconds) by the clocks of a zone.

    Midnight in UTC to the second is a date without a time of day, as dates alone are stored: it is that date in
    every zone. OverflowError, ValueError or OSError beyond the calendar.
    """
    return datetime.fromtimestamp(moment, zone if moment % _DAY_S else UTC)


class Interval(NamedTuple):
    """A time interval in a question: from `start` up to, and without, `end`, and the words that name it.

    Epoch seconds; None is without end on that side. `kind` is date (days by name), period (months, years, seasons,
    from and to), relative (to now) or open (since, before, after, until). `exact`: it is open, or one day, or a
    part of one, that is named and not counted from now.
    """

    start: float | None
    end: float | None
    kind: TimeKind
    words: str
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTime:
    """The time in a question. Of several intervals, any may match.

    `asks_when`: a time is what it asks for. `session`: the place of the session that it names, from 1 on, or from
    -1 (the last) back. `of`: whether the intervals are of what was `said` then, of what happens then as a text has
    `told` it, or of both. `alone`: it names the time, or the session, and nothing else to search for. `session_id`:
    the session that `session` names, once that has been looked up. `widened`: the intervals are a day wider on both
    sides than the words say, because nothing was found in them. `ahead`: it asks for what is still to come, which a
    told time that is over does not answer. `zone`: that of whoever asks.
    """

    intervals: tuple[Interval, ...] = ()
    asks_when: bool = False
    session: int | None = None
    of: TimeOf = "both"
    alone: bool = False
    session_id: str | None = None
    widened: bool = False
    ahead: bool = False
    zone: tzinfo = UTC

    def is_past(self, now: float) -> bool:
        """Whether it names times, and each has a beginning and is over at `now` (epoch seconds)."""
        return bool(self.intervals) and all(
            one.start is not None and one.end is not None and one.end <= now for one in self.intervals
        )


NO_TIME = QuestionTime()


class ToldTime(NamedTuple):
    """A time that a text tells: a half-open interval of epoch seconds; `weekly`: the first of one every week."""

    since: float
    until: float
    weekly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMention:
    """A time named in a text: its words, and a half-open interval of epoch seconds.

    `weekly`: it comes again every week, from that interval on.
    """

    text: str
    since: float
    until: float
    weekly: bool = False


class TimedKey(NamedTuple):
    """A dated memory by its key, with its time and its session."""

    key: int
    ts: float
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a search. Every part that is set must hold; a source that cannot apply one fails.

    `told`: the text tells a time that overlaps one of these intervals. `as_of`: nothing of a later time, but
    what has no time."""

    tenant: str
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    as_of: float | None = None
    speakers: tuple[str, ...] = ()
    told: tuple[TimeRange, ...] = ()


ReaderInstructions = Literal["keep", "flag", "down", "hold"]
QuestionShape = Literal["recap", "list"]
QUESTION_SHAPES: tuple[QuestionShape, ...] = get_args(QuestionShape)
Superseded = Literal["mark", "omit", "keep"]
LedBy = Literal["succession", "follow_up", "period"]
"""What led to a candidate that no search found: a memory that it succeeds, the first hits, a recap."""
SuccessionReason = Literal["supersedes", "by_person", "by_extractor"]
LayerName = Literal["semantic", "episodic", "procedural", "prospective", "graph", "meta", "planning"]
LAYER_NAMES: tuple[LayerName, ...] = get_args(LayerName)
GraphMethod = Literal["neighbourhood", "activation", "push", "pagerank"]
WalkKind = Literal["chain", "who", "related", "temporal"]


QueryClass = Literal["factual", "temporal", "relational", "procedural", "planning", "prospective", "meta"]
"""The class of a question (`recall.understand.classes`): factual is the default."""
QUERY_CLASSES: tuple[QueryClass, ...] = get_args(QueryClass)


class Chain(NamedTuple):
    """One way that a question asks for: from the name `seed` by relations in order; `words` are its own.

    "Ana's sister's employer" is `Ana` by ("sister", "employer"). `who` asks what the seed is, `related` for a path
    to `target`, `temporal` for what is told of the seed at the question's time."""

    seed: str
    via: tuple[str, ...]
    words: str
    asks: WalkKind = "chain"
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An understood query: the text that each source searches for, and the clock.

    `vectors` keeps what `dense_text` was embedded to, by the embedder's `id()`, for all searches of one recall.
    `chains` are the ways that the graph follows, the first with a path counts."""

    text: str
    dense_text: str
    keyword_text: str
    terms: frozenset[str]
    now: float
    text_hash: str
    session_id: str | None = None
    node_id: str | None = None
    time: QuestionTime = NO_TIME
    chains: tuple[Chain, ...] = ()
    vectors: dict[int, list[float]] = field(default_factory=dict[int, "list[float]"], compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A request to one source: question, scope, hits and time; `is_short`: less than the source's own limit.

    `path_time` is the share of `timeout_s` in which paths are searched for."""

    question: Question
    scope: Scope
    limit: int
    timeout_s: float = 5.0
    is_short: bool = False
    min_score: float = 0.0
    window_minutes: int = 0
    hops: int = 1
    max_entities: int = 4
    max_statements: int = 48
    with_aliases: bool = False
    similar_entities: int = 0
    graph_method: GraphMethod = "neighbourhood"
    graph_damping: float = 0.6
    graph_rounds: int | None = None
    path_hops: int = 4
    path_expansions: int = 60
    path_time: float = 0.5


class SuccessionLink(NamedTuple):
    """One succession of a memory: the other memory, when the newer one was said, and who stated it.

    `reason` is a code, `evidence` the ids of the memories that state it, `probability` 1.0 for a statement.
    """

    key: int
    id: str
    at: float
    reason: SuccessionReason
    probability: float = 1.0
    evidence: tuple[str, ...] = ()


class MemoryView(NamedTuple):
    """The fields of a memory that ranking and rendering need, all computed when the memory was written.

    `beside` are the keys of the turns before and after it in its session; `until` is when the event of `ts` ended,
    where that is known. `after_question`: the turn before it in its session is a question. `chatter`: it says
    nothing that anybody would look for (`text.small_talk`). `told` are the times that its text tells.
    `assistant`: it is known that an assistant said it; of others the speaker's name decides (`text.names`).
    `succeeds` are the older memories whose place it takes, `succeeded_by` those that take its place.
    `passages` are starts and ends of a long text's passages in turn, `passage` the number of the best one, and
    `confidence` how sure the sender was.
    """

    id: str
    text: str
    text_hash: str
    kind: str | None = None
    title: str | None = None
    speaker: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    ts: float | None = None
    uri: str | None = None
    source_ref: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()
    until: float | None = None
    after_question: bool = False
    first_person: bool = False
    chatter: bool = False
    told: tuple[ToldTime, ...] = ()
    assistant: bool = False
    succeeds: tuple[SuccessionLink, ...] = ()
    succeeded_by: tuple[SuccessionLink, ...] = ()
    passages: tuple[int, ...] = ()
    passage: int = 0
    confidence: float | None = None
    agent_id: str | None = None
    run_id: str | None = None
    guessed_kind: str | None = None

    @property
    def best_span(self) -> tuple[int, int]:
        """Where in the text the passage is that fits the question best; all of it where there are no passages."""
        first = 2 * self.passage
        if first + 1 >= len(self.passages):
            return 0, len(self.text)
        return self.passages[first], self.passages[first + 1]

    @property
    def best_text(self) -> str:
        """The passage that fits the question best; the whole text where it has no passages."""
        if not self.passages:
            return self.text
        start, end = self.best_span
        return self.text[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One edge of the graph in words: subject and object are entities as written, relation is lower-case."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory as the record holds it, with the values computed when it was written.

    `entities` holds the given and the extracted ones, as written. Times are epoch seconds. `version` grows with
    every change of its content. `supersedes` is only set when it is stored: the record keeps it on the other
    memories. `lacks_context` as well: the subject of a statement may be named in the turn before. Where the sender
    gave no kind, `guessed_kind` may be read from the text, and `kind_confidence` is set. `restated` is the text in
    a sentence that is understood by itself, as a language model put it; `restated_from` are the memories that this,
    or names of statements, were read from."""

    tenant: str
    id: str
    text: str
    kind: str
    text_hash: str
    content_hash: str
    title: str | None = None
    speaker: str | None = None
    session_id: str | None = None
    node_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    occurred_at: float | None = None
    occurred_until: float | None = None
    mentioned_at: float | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    times: tuple[TimeMention, ...] = ()
    source: str | None = None
    uri: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    version: int = 1
    confidence: float | None = None
    given_entities: tuple[str, ...] = ()
    extracted_by: str = "light"
    extraction_note: str | None = None
    superseded_by: str | None = None
    deleted_at: float | None = None
    supersedes: tuple[str, ...] = ()
    lacks_context: bool = field(default=False, compare=False)
    guessed_kind: str | None = None
    kind_confidence: float | None = None
    restated: str | None = None
    restated_from: tuple[str, ...] = ()

    @property
    def ts(self) -> float | None:
        """When it happened, else when it was mentioned: epoch seconds."""
        return self.mentioned_at if self.occurred_at is None else self.occurred_at

    @property
    def told(self) -> tuple[ToldTime, ...]:
        """The times that its text tells."""
        return tuple(ToldTime(one.since, one.until, one.weekly) for one in self.times)

    @property
    def is_live(self) -> bool:
        """Whether it can be found: neither deleted nor replaced by another."""
        return self.deleted_at is None and self.superseded_by is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The turn before or after a memory in its session."""

    id: str
    text: str
    speaker: str | None


class MergedName(NamedTuple):
    """An entity, and the names that were merged into it, all as written."""

    label: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the outbox: a memory in its current state, with its neighbouring turns. Positions only grow.

    A memory that is not live is to be taken out of the copy, with all that only it told. Its entities and
    statements have the names that others were merged into (`merged`), its speaker the one that was told."""

    position: int
    memory: Memory
    previous: Neighbour | None = None
    following: Neighbour | None = None
    merged: tuple[MergedName, ...] = ()
    succeeds: tuple[SuccessionLink, ...] = ()
    succeeded_by: tuple[SuccessionLink, ...] = ()

    def called(self, name: str) -> str:
        """What an entity of that name is called in the copies."""
        folded = name.casefold()
        for one in self.merged:
            if any(alias.casefold() == folded for alias in one.aliases):
                return one.label
        return name


class Hit(NamedTuple):
    """One memory found by one source; `score` on the source's own scale, best first in its list.

    `read` gives the memory, from a source that has read it anyway; else it is fetched later, if it is ranked.
    `statements` are the graph's reasons, readable; with a `path` above 0 they are the steps of a path that this
    memory is evidence for. `source_ref` is the origin of the hit, where the memory itself has none."""

    key: int
    score: float
    read: Callable[[], MemoryView] | None = None
    statements: tuple[str, ...] = ()
    path: float = 0.0
    source_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """The report of one source: status, hits returned, milliseconds, and why it failed.

    `fallback`: where a silent source's hits come from; `is_flat`: each is worth as much; `lists`: hits by kind."""

    source: SourceName
    status: SourceStatus
    hits: tuple[Hit, ...] = ()
    ms: float = 0.0
    error: str | None = None
    fallback: str | None = None
    is_flat: bool = False
    lists: tuple[tuple[Hit, ...], ...] = ()
