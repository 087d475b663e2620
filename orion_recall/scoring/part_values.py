"""Values of the score parts: one function per part, which gives its column for all candidates of a query.

Columns are made one after another: a hundred candidates with a dozen parts take half the time that they take one by
one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.scoring import intervals
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.intervals import is_told_of, overlaps, told_ranges, told_share
from orion_recall.text.names import names_assistant
from orion_recall.text.normal import stems_of_statement, words
from orion_recall.values import NO_TIME, MemoryView, QuestionTime, SourceName

_ADDRESSES = re.compile(r"\b(?:you|your|yours)\b", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\b\d{1,2}(?::[0-5]\d|\s?[ap]\.?m)\b", re.IGNORECASE)
_HALF, _QUARTER = 0.5, 0.25
_NEAREST, _ABOUT_AS_NEAR, _LATER_S = 0.85, 0.8, 3600.0
# Of a time that may be either, what was said then goes before what was told of it later.
_TOLD = 0.8
WHOLE_EVIDENCE = 31
"""The weight of a memory's statements from which it has the whole part `evidence`."""

Pair = tuple[Candidate, MemoryView]
Column = Sequence[float | None]
"""One part of every candidate, in their order; None for a candidate without this part."""

UNDATED_RECENCY = 0.5
READ_CHARS = 2000
"""Characters of a text that are read for an answer, a few more than are embedded. To read whole documents would
cost a recall more than all its searches."""
_NO_KEYS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """Facts of a query and its searches for the score parts; mappings are by memory key.

    `asker` is the speaker who asks, where the question is in the first person; `is_own`: it is, and asks for
    nobody else's words.
    `similarities` are the cosines of all hits of the dense search, candidate or not. `late` is the part of late
    interaction, for the memories that were compared. `followed` has the parts of the follow-up search by name.
    `unindexed` are memories that the index does not hold: where the index alone could give a part, a memory of its
    own has 0 and these have none. Texts of those in `told_unknown` were not read for told times.
    `entities` are the names in it, `terms` the stems of its words, `identifiers` its numbers and single letters;
    `evidence` is how often memories' statements are stated, where that was looked up.
    """

    now: float
    named_speaker: str | None = None
    asker: str | None = None
    is_own: bool = False
    similarities: Mapping[int, float] = field(default_factory=dict[int, float])
    time: QuestionTime = NO_TIME
    session_id: str | None = None
    late: Mapping[int, float] = field(default_factory=dict[int, float])
    followed: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    unindexed: frozenset[int] = _NO_KEYS
    told_unknown: frozenset[int] = _NO_KEYS
    entities: tuple[str, ...] = ()
    terms: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True, slots=True)
class PartInputs:
    """The input of every part: the candidates and their memories, the query's facts, the profile's values.

    `fused` are the fused scores divided by the best. `cosines` are those of the dense search, None where it has
    none; `farthest` is the lowest of them among indexed memories."""

    candidates: Sequence[Pair]
    memories: Sequence[MemoryView]
    facts: QueryFacts
    weights: Mapping[str, float]
    half_life_hours: float
    recency_minimum: float
    fused: Sequence[float]
    cosines: Column
    farthest: float | None


def part_inputs(
    candidates: Sequence[Pair],
    facts: QueryFacts,
    weights: Mapping[str, float],
    *,
    half_life_hours: float,
    recency_minimum: float,
) -> PartInputs:
    """The inputs of all parts; there must be a candidate."""
    fused = [candidate.fused for candidate, _ in candidates]
    best = max(fused) or 1.0
    cosines = [candidate.scores.get("vector") for candidate, _ in candidates]
    unindexed = facts.unindexed
    reached = [
        cosine
        for (candidate, _), cosine in zip(candidates, cosines, strict=True)
        if cosine is not None and not (unindexed and candidate.key in unindexed)
    ]
    return PartInputs(
        candidates=candidates,
        memories=[memory for _, memory in candidates],
        facts=facts,
        weights=weights,
        half_life_hours=half_life_hours,
        recency_minimum=recency_minimum,
        fused=[score / best for score in fused],
        cosines=cosines,
        farthest=_share(min(reached)) if reached else None,
    )


def fusion(given: PartInputs) -> Column:
    """The fused score, 1 for the best; 0 for all where it has no weight."""
    return given.fused if given.weights["fusion"] else [0.0] * len(given.fused)


def similarity(given: PartInputs) -> Column | None:
    """The cosine. A memory that the dense search did not reach counts as the last one that it did reach."""
    if (farthest := given.farthest) is None:
        known = [None if cosine is None else _share(cosine) for cosine in given.cosines]
        return None if all(cosine is None for cosine in known) else known
    column: Column = [  # as `_share` gives it, without a call for each
        farthest if cosine is None else 0.0 if cosine < 0.0 else 1.0 if cosine > 1.0 else cosine
        for cosine in given.cosines
    ]
    return _without_unindexed(column, given, "vector")


def neighbour(given: PartInputs) -> Column | None:
    """The cosine of the closer turn beside the memory: people answer a question one turn later."""
    if (farthest := given.farthest) is None:
        return None
    similarity_of, unindexed = given.facts.similarities.get, given.facts.unindexed
    column: list[float | None] = []
    for memory in given.memories:
        closest = farthest
        for key in memory.beside:
            if (near := similarity_of(key, farthest)) > closest:
                closest = near
        column.append(closest if closest < 1.0 else 1.0)
    if unindexed:
        for place, (candidate, _) in enumerate(given.candidates):
            if candidate.key in unindexed:
                column[place] = None
    return column


def recency_column(given: PartInputs) -> Column:
    """Recency by the profile's half-life."""
    now, half_life, minimum = given.facts.now, given.half_life_hours, given.recency_minimum
    return [  # as `recency` gives it, without a call for each
        UNDATED_RECENCY
        if (ts := memory.ts) is None
        else max(minimum, 0.5 ** (((now - ts) / 3600 if ts < now else 0.0) / half_life))
        for memory in given.memories
    ]


def recency(ts: float | None, now: float, *, half_life_hours: float, minimum: float) -> float:
    """0.5 ^ (age / half-life), never below the minimum (`recency_floor`); 0.5 when undated, 1 for the future."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(minimum, 0.5 ** (age_hours / half_life_hours))


def newer(given: PartInputs) -> Column | None:
    """0 for a memory that a newer one overtakes, 1 for any other; none where a time is asked about.

    A newer memory overtakes an older one that is about as near to the question, where it has all the words of it
    that the older one has: of two texts about one thing the newer one is likelier to hold. Only the nearest are
    compared.
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
        (memory.ts, place, score, asked & stems_of(memory))
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


def identifiers(given: PartInputs) -> Column | None:
    """The share of the question's numbers and single letters (2.3, PAY-31, gate A) that the memory has.

    Vectors hardly tell them apart, and they tell which of several like things is meant.
    """
    if not (asked := given.facts.identifiers):
        return None
    return [len(asked & stems_of(memory)) / len(asked) for memory in given.memories]


def stems_of(memory: MemoryView) -> frozenset[str]:
    """The stems of a memory's words, its title's and its speaker's."""
    return stems_of_statement(memory.speaker, memory.title, memory.best_text)


def speaker(given: PartInputs) -> Column | None:
    """1 for memories of the speaker that the question names."""
    if (named := given.facts.named_speaker) is None:
        return None
    column = [1.0 if memory.speaker == named else 0.0 for memory in given.memories]
    if not (unindexed := given.facts.unindexed):
        return column
    return [  # of a store without speakers nobody knows who said it
        None if candidate.key in unindexed and memory.speaker is None else part
        for (candidate, memory), part in zip(given.candidates, column, strict=True)
    ]


def no_question(given: PartInputs) -> Column | None:
    """1 for texts without a question mark."""
    return [
        0.0 if "?" in (memory.best_text if memory.passages else memory.text) else 1.0 for memory in given.memories
    ]


def keyword_score(given: PartInputs) -> Column | None:
    """The keyword search's score, stretched over the candidates."""
    return _stretched([candidate.scores.get("lexical") for candidate, _ in given.candidates], given, "lexical")


def stretched_cosine(given: PartInputs) -> Column | None:
    """The cosine, stretched over the candidates."""
    return _stretched(given.cosines, given, "vector")


def session(given: PartInputs) -> Column:
    """The best fused score in the memory's session: the turns around an answer tell more.

    Where late interaction has compared a memory, the mean of both counts. Over the candidates alone: with all hits
    recall was the same on judged questions, and their sessions would have to be looked up. A memory without a
    session is a session of its own."""
    late = given.facts.late
    found = _with_late(given, late) if late else given.fused
    sessions = [memory.session_id for memory in given.memories]
    best: dict[str | None, float] = dict.fromkeys(sessions, 0.0)
    for name, score in zip(sessions, found, strict=True):
        if score > best[name]:
            best[name] = score
    return [score if name is None else best[name] for name, score in zip(sessions, found, strict=True)]


def asker(given: PartInputs) -> Column | None:
    """1 for what the one who asks has said, or was told; 0 for what others say of themselves; 0.5 for the rest.

    Where the question is in the first person, and asks for nobody else's words. "I live in Bergen" said by another
    is no answer to "Where do I live?", but "you live" is one."""
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


def role(given: PartInputs) -> Column | None:
    """1 for what a person said, 0 for what an assistant said, where the question is in the first person.

    What somebody did, has or wants is in their own words; an assistant's answer says it again among much else. None
    where no candidate, or every one, is an assistant's.
    """
    if not given.facts.is_own:
        return None
    column = [0.0 if one.assistant or names_assistant(one.speaker) else 1.0 for one in given.memories]
    return column if 0.0 < sum(column) < len(column) else None


def after_question(given: PartInputs) -> Column | None:
    """1 for memories after a question in their session."""
    return _known([1.0 if memory.after_question else 0.0 for memory in given.memories], given)


def first_person(given: PartInputs) -> Column:
    """1 for texts in the first person."""
    return [1.0 if memory.first_person else 0.0 for memory in given.memories]


def path(given: PartInputs) -> Column | None:
    """How well the path of a possessive chain leads to the memory, where there is a path."""
    column = [candidate.path for candidate, _ in given.candidates]
    return _known(column, given) if any(column) else None


def late(given: PartInputs) -> Column | None:
    """Late interaction, for the memories that were compared."""
    if not (compared := given.facts.late):
        return None
    return [compared.get(candidate.key) for candidate, _ in given.candidates]


def links(given: PartInputs) -> Column | None:
    """How strongly the question or a first hit names the memory's title."""
    return _followed(given, "links")


def second_step(given: PartInputs) -> Column | None:
    """The score in the second keyword search."""
    column = _followed(given, "second_step")
    return None if column is None else _known(column, given)


def _followed(given: PartInputs, name: str) -> Sequence[float] | None:
    if (values := given.facts.followed.get(name)) is None:
        return None
    return [values.get(candidate.key, 0.0) for candidate, _ in given.candidates]


def _known(column: Sequence[float], given: PartInputs) -> Column:
    """The column, with None instead of 0 for unindexed memories: own index and graph could not find them."""
    if not (unindexed := given.facts.unindexed):
        return column
    return [
        None if not part and candidate.key in unindexed else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def _without_unindexed(column: Column, given: PartInputs, source: SourceName) -> Column:
    """The column, with None for unindexed memories that the source has no score of."""
    if not (unindexed := given.facts.unindexed):
        return column
    return [
        None if candidate.key in unindexed and source not in candidate.scores else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def _stretched(scores: Column, given: PartInputs, source: SourceName) -> Column | None:
    """A source's scores, stretched over the candidates to [0, 1]; None where the source found none of them."""
    found = [score for score in scores if score is not None]
    if not found:
        return None
    low, span = min(found), max(found) - min(found)
    if span <= 0:
        column = [0.0 if score is None else 1.0 for score in scores]
    else:
        column = [0.0 if score is None else (score - low) / span for score in scores]
    return _without_unindexed(column, given, source)


def _with_late(given: PartInputs, late: Mapping[int, float]) -> Sequence[float]:
    """The fused score; for memories that late interaction has compared, the mean of it and of `late`."""
    return [
        score if (near := late.get(candidate.key)) is None else (score + near) / 2
        for (candidate, _), score in zip(given.candidates, given.fused, strict=True)
    ]


def _share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)


def time(given: PartInputs) -> Column | None:
    """How well the memory's time fits that of the question. An undated memory has no such part.

    None where the question is about what texts tell of a time, whenever it was said. Where it may mean either, what
    was told of the time later is of that time, too.
    """
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


def proximity(given: PartInputs) -> Column | None:
    """How close the memory's time is to the one that the question names. An undated memory has no such part."""
    asked = given.facts.time
    if asked.of == "told" or not asked.intervals:
        return None
    return [intervals.proximity(asked.intervals, memory.ts, memory.until) for memory in given.memories]


def told(given: PartInputs) -> Column | None:
    """How well the times that the text tells fit the time of the question.

    None where that time may as well be that of saying: then it counts in `time`. Where a time is what the question
    asks for, a fit is worth half; where the question asks when something is, a quarter, since any time would fit.
    """
    asked = given.facts.time
    ranges = told_ranges(asked, given.facts.now)
    if not ranges or (asked.of == "both" and asked.intervals):
        return None
    worth = 1.0 if asked.of == "told" and asked.intervals else _QUARTER if asked.asks_when else _HALF
    column = [worth * told_share(memory.told, ranges) if memory.told else 0.0 for memory in given.memories]
    if not (unknown := given.facts.told_unknown):
        return column
    return [
        None if candidate.key in unknown else part
        for (candidate, _), part in zip(given.candidates, column, strict=True)
    ]


def session_named(candidates: Iterable[Pair], time: QuestionTime, session_id: str | None) -> str | None:
    """The session that the question names by its place, by first turn, among the candidates.

    The query's own session is none of them.
    """
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


def time_told(given: PartInputs) -> Column | None:
    """1 for texts that tell a time, be it of a day, where the question asks when."""
    if not given.facts.time.asks_when:
        return None
    return [
        1.0 if memory.told or _TIME_OF_DAY.search(memory.best_text[:READ_CHARS]) else 0.0
        for memory in given.memories
    ]


def overlap(given: PartInputs) -> Column | None:
    """The share of the question's entities that the memory or its statements hold; none without entities.

    An entity is held by its whole name or by a longer one: "Ana" by "Ana Miles"."""
    wanted = [frozenset(words(name)) for name in given.facts.entities]
    if not wanted:
        return None
    column: list[float | None] = []
    for (candidate, memory), _ in zip(given.candidates, given.memories, strict=True):
        if candidate.key in given.facts.unindexed and not memory.entities:
            column.append(None)  # nobody has looked for entities in it
            continue
        held = [frozenset(words(name)) for name in (*memory.entities, *candidate.statements)]
        column.append(sum(any(one <= other for other in held) for one in wanted) / len(wanted))
    return column


def evidence(given: PartInputs) -> Column | None:
    """The weight of the memory's statements: log2(1 + how often they are stated) / 5, at most 1.

    What several memories state weighs more, and so does a memory of several statements."""
    if not (weights := given.facts.evidence):
        return None
    whole = math.log2(1 + WHOLE_EVIDENCE)
    return [
        None
        if candidate.key in given.facts.unindexed
        else min(1.0, math.log2(1 + weights.get(candidate.key, 0.0)) / whole)
        for candidate, _ in given.candidates
    ]
