"""Values of search and of the record: frozen types that pass between modules.

    Question -> SearchRequest -> Hit -> SourceReport; then Candidate (`scoring`) -> Selection (`recall.bundle`)

Times are epoch seconds (UTC) and `None` means undated. Scores of a source keep the source's own scale;
only the final score of a candidate is on the documented scale of [0, 1].

Those of which a recall makes hundreds are named tuples: a frozen dataclass takes more than twice as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]

SourceName = Literal["vector", "lexical", "rdf", "sql_timeline"]
SOURCE_NAMES: tuple[SourceName, ...] = ("vector", "lexical", "rdf", "sql_timeline")

SourceStatus = Literal["ok", "empty", "late", "failed", "off"]
Outcome = Literal["invalid", "expired", "refused", "failed", "degraded", "empty", "ok"]
OUTCOMES: tuple[Outcome, ...] = ("invalid", "expired", "refused", "failed", "degraded", "empty", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a search. Every part that is set must hold; a source that cannot apply one fails."""

    tenant: str
    session_id: str | None = None
    user_id: str | None = None
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None


LaneUse = Literal["ignore", "tag", "scope"]
TimeKind = Literal["date", "period", "relative", "open"]
SessionNamed = Literal["first", "last"]
GraphMethod = Literal["neighbourhood", "activation", "push", "pagerank"]


class Interval(NamedTuple):
    """A time interval in a question: from `start` up to, and without, `end`, and the words that name it.

    Epoch seconds; None is without end on that side. `kind` is date (days by name), period (months, years, seasons,
    from and to), relative (to now) or open (since, before, after, until).
    """

    start: float | None
    end: float | None
    kind: TimeKind
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTime:
    """The time in a question. Of several intervals, any may match.

    `asks_when`: a time is what it asks for. `session`: it names the first or the last session.
    """

    intervals: tuple[Interval, ...] = ()
    asks_when: bool = False
    session: SessionNamed | None = None


NO_TIME = QuestionTime()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerType:
    """The expected type of an answer, apart from a time: a name, a number, or neither in particular.

    `known` are folded words that do not answer a question for a name: those of the question and of the speakers.
    """

    name: bool = False
    number: bool = False
    known: frozenset[str] = frozenset()


ANY_TYPE = AnswerType()

MergeStrategy = Literal["confidence_weighted", "layer_weighted", "recency_weighted", "score_weighted"]
QueryClass = Literal["factual", "temporal", "relational", "procedural", "planning", "prospective", "meta"]
"""The class of a question: a fact (the default), a time, a relation between people, how something is done, what
would best be done, what is still to be done, or what is known at all."""
QUERY_CLASSES: tuple[QueryClass, ...] = get_args(QueryClass)


class Chain(NamedTuple):
    """One reading of a possessive chain: the name it begins at, its relations in order, and its words.

    "Ana's sister's employer" is `Ana` by ("sister", "employer").
    """

    seed: str
    via: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An understood query: the text that each source searches for, and the clock.

    `vectors` keeps what `dense_text` was embedded to, by the embedder's `id()`, for all searches of one recall.
    `chains` are the readings of one possessive chain, where the graph follows them.
    """

    text: str
    dense_text: str
    keyword_text: str
    terms: frozenset[str]
    now: float
    text_hash: str
    session_id: str | None = None
    node_id: str | None = None
    time: QuestionTime = NO_TIME
    answer_type: AnswerType = ANY_TYPE
    chains: tuple[Chain, ...] = ()
    vectors: dict[int, list[float]] = field(default_factory=dict[int, "list[float]"], compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreWordsWanted:
    """The settings of query expansion: other names, and terms of the first documents found."""

    aliases: bool
    feedback_documents: int
    feedback_terms: int
    feedback_weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A request to one source: the question, the scope, the number of hits and the time."""

    question: Question
    scope: Scope
    limit: int
    timeout_s: float = 5.0
    min_score: float = 0.0
    window_minutes: int = 0
    hops: int = 1
    max_entities: int = 4
    max_statements: int = 48
    more_words: MoreWordsWanted | None = None
    similar_entities: int = 0
    graph_method: GraphMethod = "neighbourhood"


class MemoryView(NamedTuple):
    """The fields of a memory that ranking and rendering need, all computed when the memory was written.

    `beside` are the keys of the turns before and after it in its session; `until` is when the event of `ts` ended,
    where that is known. `after_question`: the turn before it in its session is a question.
    """

    id: str
    text: str
    text_hash: str
    simhash: int | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One edge of the graph in words: subject and object are entities as written, relation is lower-case."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeMention:
    """A time named in a text: its words, and a half-open interval of epoch seconds."""

    text: str
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory as the record holds it, with the values computed when it was written.

    `entities` holds the given and the extracted ones, as written. Times are epoch seconds. `version` grows with
    every change of its content. `supersedes` is only set when it is stored: the record keeps it on the other
    memories. `lacks_context` as well: the subject of a statement may be named in the turn before."""

    tenant: str
    id: str
    text: str
    kind: str
    text_hash: str
    simhash: int | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedName:
    """An entity, and the names that were merged into it, all as written."""

    label: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the outbox: a memory in its current state, with its neighbouring turns. Positions only grow.

    A memory that is not live is to be taken out of the copy, with all that only it told. Its entities and
    statements have the names that others were merged into, its speaker the one that was told; `merged` are those of
    its entities that others were merged into.
    """

    position: int
    memory: Memory
    previous: Neighbour | None = None
    following: Neighbour | None = None
    merged: tuple[MergedName, ...] = ()

    def called(self, name: str) -> str:
        """What an entity of that name is called in the copies."""
        folded = name.casefold()
        for one in self.merged:
            if any(alias.casefold() == folded for alias in one.aliases):
                return one.label
        return name


class Hit(NamedTuple):
    """One memory found by one source; `score` on the source's own scale, best first in its list.

    `read` gives the memory, from a source that has read it anyway; the others leave it to be fetched once, in a
    batch, for the few that are ranked. `statements` are the graph's reasons, readable; with a `path` above 0 they
    are the steps of a path that this memory is evidence for. `source_ref` is the origin of the hit, where the
    memory itself has none."""

    key: int
    score: float
    read: Callable[[], MemoryView] | None = None
    statements: tuple[str, ...] = ()
    path: float = 0.0
    source_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """The report of one source: status, hits returned, milliseconds, and why it failed.

    `fallback` names what the hits of a source that failed or was late come from.
    """

    source: SourceName
    status: SourceStatus
    hits: tuple[Hit, ...] = ()
    ms: float = 0.0
    error: str | None = None
    fallback: str | None = None
