"""The named parts of candidates' scores, each a number in [0, 1] that the profile weighs.

`fusion`, `similarity`, `neighbour`, `recency`, `speaker` and `time` cost next to nothing and are always there where
they can be; every other part is only made where its weight says that it counts. They are made column by column: a
hundred candidates with a dozen parts take half the time that they take one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orion_recall.profile import Profile
from orion_recall.recall.understand.answer_types import gives_name, gives_number
from orion_recall.scoring.time_overlap import overlap, tells_time
from orion_recall.values import ANY_TYPE, NO_TIME, AnswerType, Candidate, MemoryView, QuestionTime, SourceName

Found = tuple[Candidate, MemoryView]
Column = Sequence[float | None]
"""A part of every candidate, in their order; None for one that has no such part."""

UNDATED_RECENCY = 0.5
WHOLE_LENGTH = 200
"""Characters from which a text is long enough to say something: below it `length` grows in proportion."""
READ_CHARS = 2000
"""Characters of a text that are read for what it tells: some more than are embedded. Whole documents would cost a
recall more than all its searches."""
_NOTHING: Mapping[int, float] = {}
_NO_PARTS: Mapping[str, Mapping[int, float]] = {}
_NO_KEYS: frozenset[int] = frozenset()
_BY_SOURCE: tuple[tuple[str, SourceName], ...] = (("words", "lexical"), ("meaning", "vector"))


def parts_of(
    candidates: Sequence[Found],
    profile: Profile,
    *,
    now: float,
    named_speaker: str | None = None,
    similarities: Mapping[int, float] = _NOTHING,
    time: QuestionTime = NO_TIME,
    answer_type: AnswerType = ANY_TYPE,
    session_id: str | None = None,
    further: Mapping[str, Mapping[int, float]] = _NO_PARTS,
    followed: Mapping[str, Mapping[int, float]] = _NO_PARTS,
    unindexed: frozenset[int] = _NO_KEYS,
) -> dict[str, Column]:
    """A column for every part that any candidate has.

    `similarities` are the cosines, by key, of all that the dense search found, candidate or not. `further` are
    parts that are made elsewhere: their values by key, by the part's name; a key that is not among them has none.
    `followed` are such parts, too, 0 for whoever is not in them. `unindexed` are the keys of those that the index
    does not hold: they have no part that it alone could give, where a memory of its own would have 0.
    """
    if not candidates:
        return {}
    weights: dict[str, float] = profile.ranking.model_dump()
    memories = [memory for _, memory in candidates]
    fused = _fused(candidates)
    columns: dict[str, Column] = {"fusion": fused if weights["fusion"] else [0.0] * len(fused)}
    columns |= _closeness(candidates, similarities, unindexed)
    half_life, floor = profile.time_decay_half_life_hours, profile.recency_floor
    columns["recency"] = [recency(memory.ts, now, half_life_hours=half_life, floor=floor) for memory in memories]
    if named_speaker is not None:
        columns["speaker"] = [1.0 if memory.speaker == named_speaker else 0.0 for memory in memories]
    columns |= _of_time(candidates, time, session_id)
    if time.asks_when and weights["tells_time"]:
        columns["tells_time"] = [1.0 if tells_time(memory.text[:READ_CHARS]) else 0.0 for memory in memories]
    columns |= _of_answers(memories, answer_type, weights)
    for name, source in _BY_SOURCE:
        if weights[name]:
            columns |= _stretched(name, [candidate.scores.get(source) for candidate, _ in candidates])
            if name in columns and unindexed:
                columns[name] = _without(columns[name], candidates, unindexed, found_by=source)
    if weights["session"]:
        late = further.get("late", _NOTHING)
        columns["session"] = _session(memories, _well_found(candidates, fused, late))
        if unindexed:
            columns["session"] = [
                None if memory.session_id is None and candidate.key in unindexed and candidate.key in late else part
                for (candidate, memory), part in zip(candidates, columns["session"], strict=True)
            ]
    if weights["after_question"]:
        columns["after_question"] = [1.0 if memory.after_question else 0.0 for memory in memories]
    if weights["length"]:
        columns["length"] = [min(1.0, len(memory.text) / WHOLE_LENGTH) for memory in memories]
    if weights["first_person"]:
        columns["first_person"] = [1.0 if memory.first_person else 0.0 for memory in memories]
    if any(candidate.path for candidate, _ in candidates):
        columns["path"] = [candidate.path for candidate, _ in candidates]
    for name, values in further.items():
        columns[name] = [values.get(candidate.key) for candidate, _ in candidates]
    for name, values in followed.items():
        columns[name] = [values.get(candidate.key, 0.0) for candidate, _ in candidates]
    return columns


def _of_answers(
    memories: Sequence[MemoryView], wanted: AnswerType, weights: Mapping[str, float]
) -> dict[str, Column]:
    """What a text gives of what the question asks for; and whether it says something, or asks itself."""
    columns: dict[str, Column] = {}
    if wanted.name and weights["tells_name"]:
        columns["tells_name"] = [
            1.0 if gives_name(memory.text[:READ_CHARS], wanted.known) else 0.0 for memory in memories
        ]
    if wanted.number and weights["tells_number"]:
        columns["tells_number"] = [1.0 if gives_number(memory.text[:READ_CHARS]) else 0.0 for memory in memories]
    if weights["asks_nothing"]:
        columns["asks_nothing"] = [0.0 if "?" in memory.text else 1.0 for memory in memories]
    return columns


def session_named(candidates: Iterable[Found], time: QuestionTime, session_id: str | None) -> str | None:
    """The first or last session, as the question says, of those found; the query's own is neither."""
    if time.session is None:
        return None
    sessions = [
        (memory.ts, memory.session_id)
        for _, memory in candidates
        if memory.ts is not None and memory.session_id is not None and memory.session_id != session_id
    ]
    return (min if time.session == "first" else max)(sessions, default=(0.0, None))[1]


def recency(ts: float | None, now: float, *, half_life_hours: float, floor: float) -> float:
    """0.5 ^ (age / half-life), never below the floor; 0.5 when undated, 1 for what lies ahead."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(floor, 0.5 ** (age_hours / half_life_hours))


def _fused(candidates: Sequence[Found]) -> list[float]:
    best = max(candidate.fused for candidate, _ in candidates) or 1.0
    return [candidate.fused / best for candidate, _ in candidates]


def _closeness(
    candidates: Sequence[Found], similarities: Mapping[int, float], unindexed: frozenset[int]
) -> dict[str, Column]:
    """The cosine, and that of the closer turn beside it: people answer a question one turn later.

    A memory that the dense search did not reach is no closer than the last one that it did.
    """
    scores = [candidate.scores.get("vector") for candidate, _ in candidates]
    reached = [
        score
        for (candidate, _), score in zip(candidates, scores, strict=True)
        if score is not None and candidate.key not in unindexed
    ]
    if not reached:
        known = [None if score is None else _share(score) for score in scores]
        return {} if all(score is None for score in known) else {"similarity": known}
    farthest = _share(min(reached))
    beside: list[float | None] = []
    for candidate, memory in candidates:
        if candidate.key in unindexed:
            beside.append(None)
            continue
        closest = farthest
        for key in memory.beside:
            if (near := similarities.get(key)) is not None and near > closest:
                closest = near
        beside.append(min(closest, 1.0))
    similarity: Column = [farthest if score is None else _share(score) for score in scores]
    return {
        "similarity": _without(similarity, candidates, unindexed, found_by="vector") if unindexed else similarity,
        "neighbour": beside,
    }


def _without(
    column: Column, candidates: Sequence[Found], unindexed: frozenset[int], *, found_by: SourceName
) -> Column:
    """The column, without what stands in it for those of `unindexed` that the source has no score of."""
    return [
        None if candidate.key in unindexed and found_by not in candidate.scores else part
        for (candidate, _), part in zip(candidates, column, strict=True)
    ]


def _of_time(candidates: Sequence[Found], time: QuestionTime, session_id: str | None) -> dict[str, Column]:
    """An undated memory is neither of the time that the question names nor of another: it has no part `time`."""
    named = session_named(candidates, time, session_id)
    if not time.intervals and named is None:
        return {}
    column: list[float | None] = []
    for _, memory in candidates:
        near = overlap(time.intervals, memory.ts, memory.until) if time.intervals else None
        if near is None and named is not None:
            near = 1.0 if memory.session_id == named else 0.0
        column.append(near)
    return {"time": column}


def _stretched(name: str, scores: Column) -> dict[str, Column]:
    """A source's score, stretched over the candidates to [0, 1]; none where the source found none of them."""
    found = [score for score in scores if score is not None]
    if not found:
        return {}
    low, span = min(found), max(found) - min(found)
    if span <= 0:
        return {name: [0.0 if score is None else 1.0 for score in scores]}
    return {name: [0.0 if score is None else (score - low) / span for score in scores]}


def _well_found(candidates: Sequence[Found], fused: Sequence[float], late: Mapping[int, float]) -> Sequence[float]:
    """The fused score, or the mean of it and of late interaction for what that has compared."""
    if not late:
        return fused
    return [
        score if (near := late.get(candidate.key)) is None else (score + near) / 2
        for (candidate, _), score in zip(candidates, fused, strict=True)
    ]


def _session(memories: Sequence[MemoryView], found: Sequence[float]) -> list[float]:
    """How well the best of a memory's session was found: where one turn answers, those around it tell more.

    Over the candidates alone: with all hits recall was the same on judged questions, and their sessions would have
    to be looked up. A memory without a session is one of its own.
    """
    best: dict[str | None, float] = {}
    for memory, score in zip(memories, found, strict=True):
        if score > best.get(memory.session_id, 0.0):
            best[memory.session_id] = score
    return [
        score if memory.session_id is None else best.get(memory.session_id, 0.0)
        for memory, score in zip(memories, found, strict=True)
    ]


def _share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)
