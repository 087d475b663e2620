"""Score parts: each is a function that gives its column for all candidates, with its default weight and its words.

The profile's section `ranking`, explanations and reference pages read them: a new part is one function here, or in
another package, with an entry point of the group `orion_recall.score_parts` that has its name and leads to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from orion_recall.packages import Loaded, Registry, problem_of_name
from orion_recall.scoring import intervals
from orion_recall.scoring.candidates import READ_CHARS, UNDATED_RECENCY, Candidate, Column, Pair, QueryFacts, share
from orion_recall.scoring.intervals import is_told_of, overlaps, told_ranges, told_share
from orion_recall.source_specs import MOST_WEIGHT, is_weight, problem_of_key
from orion_recall.tasks import errors_logged
from orion_recall.text.names import names_assistant
from orion_recall.text.normal import stems_of_statement, words
from orion_recall.values import MemoryView, QuestionTime, SourceName

_ADDRESSES = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\b\d{1,2}(?::[0-5]\d|\s?[ap]\.?m)\b", re.IGNORECASE)
_HALF, _QUARTER = 0.5, 0.25
_NEAREST, _ABOUT_AS_NEAR, _LATER_S = 0.85, 0.8, 3600.0
# Of a time that may be either, what was said then goes before what was told of it later.
_TOLD = 0.8
WHOLE_EVIDENCE = 31
"""The weight of a memory's statements from which it has the whole part `evidence`."""

Made = Literal["always", "where it applies", "by another step"]
"""When a part is made: for every candidate; where question or candidates give reason to; from what another step of
the recall found out. Parts are made in this order, and within it in that of this module."""
_ORDER: tuple[Made, ...] = ("always", "where it applies", "by another step")
Relevance = Literal["of any question", "of some questions", "none"]
"""What a part tells of how well a memory fits the question. A profile gives a weight to one of the first kind."""
Unknown = Callable[[Candidate, MemoryView, float | None], object]


@dataclass(frozen=True, slots=True)
class PartInputs:
    """The input of every part. `fused` are fused scores divided by the best, `cosines` those of the dense search;
    `farthest` is the lowest of them among indexed memories."""

    candidates: Sequence[Pair]
    memories: Sequence[MemoryView]
    facts: QueryFacts
    weights: Mapping[str, float]
    half_life_hours: float
    recency_minimum: float
    fused: Sequence[float]
    cosines: Column
    farthest: float | None

    def known(self, column: Column, unknown: Unknown = lambda _, __, ___: True) -> Column:
        """The column, with None for unindexed memories where the part is not known."""
        if not (unindexed := self.facts.unindexed):
            return column
        return [
            None if one.key in unindexed and unknown(one, memory, part) else part
            for (one, memory), part in zip(self.candidates, column, strict=True)
        ]


Maker = Callable[[PartInputs], Column | None]


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part, which decorates its maker: that gives None where no candidate has the part.

    `measures` says what it is a weight of, `reason` what an explanation calls it. With `needs_weight` it is not
    made where its weight is 0; `without` says what is not done then. `relevance`: whether it is about fitting the
    question. The column has a number from 0 to 1, or None, for every candidate in its place."""

    name: str
    measures: str
    reason: str
    weight: float = 0.0
    made: Made = "where it applies"
    needs_weight: bool = False
    without: str = ""
    relevance: Relevance = "of some questions"

    @property
    def description(self) -> str:
        relevance = "" if self.relevance == "none" else ", a relevance part"
        return f"Weight of {self.measures}{relevance} (no unit){f'; 0: {self.without}' if self.without else ''}."

    def __call__(self, maker: Maker) -> Maker:
        _MAKERS[self] = maker
        return maker


_MAKERS: dict[ScorePart, Maker] = {}


def _is_nothing(_: Candidate, __: MemoryView, part: float | None) -> bool:
    return not part  # own index and graph could not find an unindexed memory


@ScorePart(
    "fusion", "the fused score", "what the sources found", weight=0.7, made="always", relevance="of any question"
)
def fusion(given: PartInputs) -> Column:
    return given.fused if given.weights["fusion"] else [0.0] * len(given.fused)


@ScorePart(
    "similarity", "the cosine similarity", "its meaning", weight=0.2, made="always", relevance="of any question"
)
def similarity(given: PartInputs) -> Column | None:
    """The cosine. A memory that the dense search did not reach counts as the last one that it did reach."""
    if (farthest := given.farthest) is None:
        known = [None if cosine is None else share(cosine) for cosine in given.cosines]
        return None if all(cosine is None for cosine in known) else known
    column: Column = [  # as `share` gives it, without a call for each
        farthest if cosine is None else 0.0 if cosine < 0.0 else 1.0 if cosine > 1.0 else cosine
        for cosine in given.cosines
    ]
    return given.known(column, lambda found, _, __: "vector" not in found.scores)


@ScorePart("neighbour", "the closer of the turns beside the memory", "the turn beside it", made="always")
def neighbour(given: PartInputs) -> Column | None:
    """The cosine of the closer turn beside the memory: people answer a question one turn later."""
    if (farthest := given.farthest) is None:
        return None
    similarity_of = given.facts.similarities.get
    column: list[float | None] = []
    for memory in given.memories:
        closest = farthest
        for key in memory.beside:
            if (near := similarity_of(key, farthest)) > closest:
                closest = near
        column.append(closest if closest < 1.0 else 1.0)
    return given.known(column)


@ScorePart(
    "late",
    "late interaction, query's words against memory's",
    "how each word of the question is met",
    made="by another step",
)
def late(given: PartInputs) -> Column | None:
    compared = given.facts.late
    return [compared.get(candidate.key) for candidate, _ in given.candidates] if compared else None


@ScorePart(
    "newer",
    "'no newer memory that is about as near has the same words of the query'",
    "being the newest on it",
    needs_weight=True,
    relevance="none",
)
def newer(given: PartInputs) -> Column | None:
    """0 for a memory that a newer one overtakes, 1 for any other; none where a time is asked about.

    It overtakes one that is about as near to the question, where it has all of its words that the older one has: of
    two texts about one thing the newer one is likelier to hold. Only the nearest are compared.
    """
    near = [
        given.facts.late.get(candidate.key, cosine)
        for (candidate, _), cosine in zip(given.candidates, given.cosines, strict=True)
    ]
    if given.facts.time.intervals or not (known := [one for one in near if one is not None]):
        return None
    least = _NEAREST * max(known)
    column = [1.0] * len(near)
    asked = given.facts.terms | given.facts.identifiers
    close = [
        (memory.ts, place, score, asked & _stems_of(memory))
        for place, (score, memory) in enumerate(zip(near, given.memories, strict=True))
        if score is not None and score >= least and memory.ts is not None
    ]
    for ts, place, score, has in close:
        if has and any(
            after > ts + _LATER_S and other >= _ABOUT_AS_NEAR * score and has <= words_of
            for after, _, other, words_of in close
        ):
            column[place] = 0.0
    return column


@ScorePart(
    "identifiers",
    "the share of the query's numbers and single letters that the memory has",
    "the numbers and letters of the question",
    needs_weight=True,
)
def identifiers(given: PartInputs) -> Column | None:
    """Vectors hardly tell 2.3, PAY-31 or gate A apart, and they tell which of several like things is meant."""
    asked = given.facts.identifiers
    return [len(asked & _stems_of(memory)) / len(asked) for memory in given.memories] if asked else None


def _stems_of(memory: MemoryView) -> frozenset[str]:
    return stems_of_statement(memory.speaker, memory.title, memory.best_text)


@ScorePart("speaker", "'the query names this memory's speaker'", "who said it")
def speaker(given: PartInputs) -> Column | None:
    if (named := given.facts.named_speaker) is None:
        return None
    column = [1.0 if memory.speaker == named else 0.0 for memory in given.memories]
    return given.known(column, lambda _, memory, __: memory.speaker is None)  # of a store without speakers


@ScorePart(
    "asker",
    "'the query speaks of me, and the memory was said by me or names me'",
    "being said by the one who asks, or to them",
    needs_weight=True,
)
def asker(given: PartInputs) -> Column | None:
    """1 for what the one who asks has said, or was told; 0 for what others say of themselves; 0.5 for the rest.

    "I live in Bergen" said by another is no answer to "Where do I live?", but "you live" is one."""
    me = given.facts.asker
    if me is None or given.facts.named_speaker not in (None, me):
        return None
    first_name = (me.split() or [me])[0]
    return [_of_asker(memory, me, first_name) for memory in given.memories]


def _of_asker(memory: MemoryView, me: str, first_name: str) -> float:
    if memory.speaker == me:
        return 1.0
    text = memory.best_text[:READ_CHARS]
    if first_name in text or _ADDRESSES.search(text) is not None:
        return 1.0
    return 0.0 if memory.first_person and memory.speaker is not None else 0.5


@ScorePart(
    "role",
    "'the query speaks of me, and a person said the memory, no assistant'",
    "being said by a person",
    needs_weight=True,
)
def role(given: PartInputs) -> Column | None:
    """What somebody did, has or wants is in their own words; an assistant says it again among much else. None where
    no candidate, or every one, is an assistant's."""
    if not given.facts.is_own:
        return None
    column = [0.0 if one.assistant or names_assistant(one.speaker) else 1.0 for one in given.memories]
    return column if 0.0 < sum(column) < len(column) else None


@ScorePart("time", "'the memory is of the time that the query names'", "when it was said, or a time that it names")
def time(given: PartInputs) -> Column | None:
    """None for an undated memory, and where the question is about what texts tell of a time, whenever it was said.
    Where it may mean either, what was told of the time later is of that time, too."""
    asked = given.facts.time
    if asked.of == "told":
        return None
    named = asked.session_id or session_named(given.candidates, asked, given.facts.session_id)
    if not asked.intervals and named is None:
        return None
    fits: Column = [None] * len(given.memories)
    if asked.intervals:
        fits = overlaps(asked.intervals, [(memory.ts, memory.until) for memory in given.memories])
    ranges = told_ranges(asked, given.facts.now)
    column: list[float | None] = []
    for memory, fit in zip(given.memories, fits, strict=True):
        near = fit
        if fit != 1.0 and memory.told and ranges and is_told_of(memory, ranges, ahead=asked.ahead):
            near = max(_TOLD * told_share(memory.told, ranges), fit or 0.0)
        if near is None and named is not None:
            near = 1.0 if memory.session_id == named else 0.0
        column.append(near)
    return column


def session_named(candidates: Iterable[Pair], time: QuestionTime, session_id: str | None) -> str | None:
    """The session that the question names by its place, by first turn, among the candidates' without the
    query's."""
    if time.session is None:
        return None
    first: dict[str, float] = {}
    for _, memory in candidates:
        session, ts = memory.session_id, memory.ts
        if session is not None and ts is not None and session != session_id:
            first[session] = min(ts, first.get(session, ts))
    place = time.session - 1 if time.session > 0 else time.session
    order = sorted(first, key=lambda session: (first[session], session))
    return order[place] if -len(order) <= place < len(order) else None


@ScorePart(
    "time_proximity",
    "'how close the memory is to the time that the query names', 1 inside it",
    "being close to the named time",
    needs_weight=True,
)
def proximity(given: PartInputs) -> Column | None:
    asked = given.facts.time
    if asked.of == "told" or not asked.intervals:
        return None
    return [intervals.proximity(asked.intervals, memory.ts, memory.until) for memory in given.memories]


@ScorePart(
    "told", "'the memory tells of the time that the query is about'", "a time that it names", needs_weight=True
)
def told(given: PartInputs) -> Column | None:
    """None where that time may as well be that of saying: then it counts in `time`. Where a time is what the
    question asks for, a fit is worth half; where it asks when something is, a quarter, since any time would fit."""
    asked = given.facts.time
    ranges = told_ranges(asked, given.facts.now)
    if not ranges or (asked.of == "both" and asked.intervals):
        return None
    worth = 1.0 if asked.of == "told" and asked.intervals else _QUARTER if asked.asks_when else _HALF
    unread = given.facts.told_unknown
    return [
        None if one.key in unread else worth * told_share(memory.told, ranges) if memory.told else 0.0
        for one, memory in given.candidates
    ]


@ScorePart("tells_time", "'the query asks when, the memory tells a time'", "naming a time", needs_weight=True)
def time_told(given: PartInputs) -> Column | None:
    if not given.facts.time.asks_when:
        return None
    return [
        1.0 if memory.told or _TIME_OF_DAY.search(memory.best_text[:READ_CHARS]) else 0.0
        for memory in given.memories
    ]


@ScorePart("asks_nothing", "'the memory asks no question'", "not asking itself", needs_weight=True)
def no_question(given: PartInputs) -> Column | None:
    return [
        0.0 if "?" in (memory.best_text if memory.passages else memory.text) else 1.0 for memory in given.memories
    ]


@ScorePart(
    "words",
    "the keyword score, stretched over the candidates",
    "its words",
    needs_weight=True,
    relevance="of any question",
)
def keyword_score(given: PartInputs) -> Column | None:
    return _stretched(given, "lexical", [candidate.scores.get("lexical") for candidate, _ in given.candidates])


@ScorePart(
    "meaning",
    "the cosine, stretched over the candidates",
    "its meaning",
    needs_weight=True,
    relevance="of any question",
)
def stretched_cosine(given: PartInputs) -> Column | None:
    return _stretched(given, "vector", given.cosines)


def _stretched(given: PartInputs, source: SourceName, scores: Column) -> Column | None:
    if not (found := [score for score in scores if score is not None]):
        return None
    low, span = min(found), max(found) - min(found)
    column = [0.0 if score is None else (score - low) / span if span > 0 else 1.0 for score in scores]
    return given.known(column, lambda found, _, __: source not in found.scores)


@ScorePart(
    "session",
    "how well the best of the memory's session was found",
    "how well it, or the best of its session, was found",
    needs_weight=True,
)
def session(given: PartInputs) -> Column:
    """The turns around an answer tell more. Where late interaction has compared a memory, the mean of both
    counts."""
    late = given.facts.late
    found = [
        score if (near := late.get(candidate.key)) is None else (score + near) / 2
        for (candidate, _), score in zip(given.candidates, given.fused, strict=True)
    ]
    sessions = [memory.session_id for memory in given.memories]
    best: dict[str | None, float] = dict.fromkeys(sessions, 0.0)
    for name, score in zip(sessions, found, strict=True):
        if score > best[name]:
            best[name] = score
    return [score if name is None else best[name] for name, score in zip(sessions, found, strict=True)]


@ScorePart(
    "after_question", "'the turn before the memory is a question'", "coming after a question", needs_weight=True
)
def after_question(given: PartInputs) -> Column | None:
    return given.known([1.0 if memory.after_question else 0.0 for memory in given.memories], _is_nothing)


@ScorePart(
    "first_person", "'the memory speaks in the first person'", "being told in the first person", needs_weight=True
)
def first_person(given: PartInputs) -> Column:
    return [1.0 if memory.first_person else 0.0 for memory in given.memories]


@ScorePart(
    "links",
    "'the question or one of the first memories names this memory's title'",
    "being named by the first hits",
    made="by another step",
    without="titles are not looked for",
)
def links(given: PartInputs) -> Column | None:
    return _found_by_step(given, given.facts.followed.get("links"))


def _found_by_step(given: PartInputs, values: Mapping[int, float] | None) -> Sequence[float] | None:
    return None if values is None else [values.get(candidate.key, 0.0) for candidate, _ in given.candidates]


@ScorePart(
    "second_step",
    "a second search by keywords, with what the first memories name",
    "the second search",
    made="by another step",
    without="there is none",
)
def second_step(given: PartInputs) -> Column | None:
    column = _found_by_step(given, given.facts.followed.get("second_step"))
    return None if column is None else given.known(column, _is_nothing)


@ScorePart(
    "path",
    "'the path of a chain or another walk rests on the memory' (`graph.paths`, `graph.traverse`)",
    "its path in the graph",
)
def path(given: PartInputs) -> Column | None:
    column = [candidate.path for candidate, _ in given.candidates]
    return given.known(column, _is_nothing) if any(column) else None


@ScorePart(
    "overlap",
    "the share of the question's entities that the memory or its statements hold",
    "what it names of the question",
    needs_weight=True,
)
def overlap(given: PartInputs) -> Column | None:
    """An entity is held by its whole name or by a longer one: "Ana" by "Ana Miles"."""
    if not (wanted := [frozenset(words(name)) for name in given.facts.entities]):
        return None
    column: list[float] = []
    for candidate, memory in given.candidates:
        held = [frozenset(words(name)) for name in (*memory.entities, *candidate.statements)]
        column.append(sum(any(one <= other for other in held) for one in wanted) / len(wanted))
    return given.known(column, lambda _, memory, __: not memory.entities)  # nobody has looked for entities in it


@ScorePart(
    "evidence",
    "how often the memory's statements are stated, log2(1 + n) / 5, at most 1",
    "the evidence for it",
    made="by another step",
    needs_weight=True,
    without="the graph is not asked",
)
def evidence(given: PartInputs) -> Column | None:
    """What several memories state weighs more, and so does a memory of several statements."""
    if not (weights := given.facts.evidence):
        return None
    whole = math.log2(1 + WHOLE_EVIDENCE)
    counts = [weights.get(candidate.key, 0.0) for candidate, _ in given.candidates]
    return given.known([min(1.0, math.log2(1 + count) / whole) for count in counts])


@ScorePart(
    "recency",
    "recency, 0.5^(age / half-life) never below `recency_floor`",
    "being newer",
    weight=0.1,
    made="always",
    relevance="none",
)
def recency_column(given: PartInputs) -> Column:
    now, half_life, minimum = given.facts.now, given.half_life_hours, given.recency_minimum
    return [  # as `recency` gives it, without a call for each
        UNDATED_RECENCY
        if (ts := memory.ts) is None
        else max(minimum, 0.5 ** (((now - ts) / 3600 if ts < now else 0.0) / half_life))
        for memory in given.memories
    ]


PARTS: tuple[ScorePart, ...] = tuple(_MAKERS)
"""The built-in parts, in the order of this module."""
LATER_PARTS: Mapping[str, tuple[str, str]] = {
    "rerank": ("rerank.weight", "the reranker"),
    "confidence": ("cascade.merge.confidence", "its confidence"),
    "layer": ("cascade.merge.layer", "the weight of its layer"),
    "score": ("cascade.merge.score", "how it ranks among all layers' items"),
}
"""Parts that a reranker or a merge of layers adds: the profile key of the weight, and what explanations call it."""


def _part_of(maker: object) -> ScorePart | None:
    return next((part for part, one in _MAKERS.items() if one is maker), None)


def _problem(one: Loaded) -> str | None:
    part = _part_of(one.value)
    if part is None:
        what = f"it leads to a {type(one.value).__name__}, not to a function that a ScorePart decorates"
        return problem_of_key(one.name) or what
    heavy = None if is_weight(part.weight) else f"its weight is no number from 0 to {MOST_WEIGHT:g}"
    return problem_of_key(one.name) or problem_of_name(one, part.name, "part") or heavy


FURTHER_PARTS = Registry(
    "orion_recall.score_parts", _problem, lambda: [*(part.name for part in PARTS), *LATER_PARTS]
)


@cache
def further_parts() -> Mapping[ScorePart, str]:
    """The parts of other packages by name, each with name and version of its package."""
    found = ((_part_of(one.value), one.package) for one in FURTHER_PARTS.used)
    return {part: package for part, package in found if part is not None}


@cache
def parts() -> tuple[ScorePart, ...]:
    """Every part of the profile's section `ranking`: the built-in ones, then those of other packages by name."""
    return (*PARTS, *further_parts())


@cache
def reasons() -> Mapping[str, str]:
    """What explanations call a part, by its name."""
    later = {name: reason for name, (_, reason) in LATER_PARTS.items()}
    return {part.name: part.reason for part in parts()} | later


@cache
def _in_order() -> Sequence[tuple[ScorePart, Maker]]:
    each = ((part, _MAKERS[part] if part in PARTS else _guarded(part, _MAKERS[part])) for part in parts())
    return sorted(each, key=lambda one: _ORDER.index(one[0].made))


def _guarded(part: ScorePart, maker: Maker) -> Maker:
    """The maker of another package: no memory has the part where it fails, or gives what is no column."""

    def guarded(given: PartInputs) -> Column | None:
        with errors_logged(f"the score part {part.name} of another package failed"):
            if (column := maker(given)) is None:
                return None
            whole = [None if value is None or value != value else share(float(value)) for value in column]
            if len(whole) == len(given.candidates):
                return whole
            raise ValueError(f"{len(whole)} values for {len(given.candidates)} candidates")
        return None

    return guarded


def part_columns(
    candidates: Sequence[Pair],
    facts: QueryFacts,
    weights: Mapping[str, float],
    *,
    half_life_hours: float,
    recency_minimum: float,
) -> dict[str, Column]:
    """A column for every part that any candidate has, by name; `weights` are those of the profile's `ranking`."""
    if not candidates:
        return {}
    best = max(candidate.fused for candidate, _ in candidates) or 1.0
    cosines = [candidate.scores.get("vector") for candidate, _ in candidates]
    reached = [
        cosine
        for (candidate, _), cosine in zip(candidates, cosines, strict=True)
        if cosine is not None and candidate.key not in facts.unindexed
    ]
    given = PartInputs(
        candidates,
        [memory for _, memory in candidates],
        facts,
        weights,
        half_life_hours,
        recency_minimum,
        [candidate.fused / best for candidate, _ in candidates],
        cosines,
        share(min(reached)) if reached else None,
    )
    columns: dict[str, Column] = {}
    for part, maker in _in_order():
        if part.needs_weight and not weights[part.name]:
            continue
        if (column := maker(given)) is not None:
            columns[part.name] = column
    return columns
