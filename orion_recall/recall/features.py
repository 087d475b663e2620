"""The named parts of a candidate's score, each a number in [0, 1] that the profile weighs.

`fusion`, `similarity`, `neighbour`, `recency`, `speaker` and `time` cost next to nothing and are always there where
they can be; every other part is only made where its weight says that it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orion_recall.profile import Profile
from orion_recall.recall.when.overlap import overlap, tells_time
from orion_recall.values import NO_TIME, Candidate, MemoryView, QuestionTime, SourceName

Found = tuple[Candidate, MemoryView]
Parts = dict[str, float]

UNDATED_RECENCY = 0.5
WHOLE_LENGTH = 200
"""Characters from which a text is long enough to say something: below it `length` grows in proportion."""
_NOTHING: Mapping[int, float] = {}
_NO_PARTS: Mapping[str, Mapping[int, float]] = {}
_BY_SOURCE: tuple[tuple[str, SourceName], ...] = (("words", "lexical"), ("meaning", "vector"))


def parts_of(
    candidates: Sequence[Found],
    profile: Profile,
    *,
    now: float,
    named_speaker: str | None = None,
    similarities: Mapping[int, float] = _NOTHING,
    time: QuestionTime = NO_TIME,
    session_id: str | None = None,
    further: Mapping[str, Mapping[int, float]] = _NO_PARTS,
) -> list[Parts]:
    """The parts of every candidate, in their order.

    `similarities` are the cosines, by key, of all that the dense search found, candidate or not. `further` are
    parts that are made elsewhere: their values by key, by the part's name; a key that is not among them has 0.
    """
    weights: dict[str, float] = profile.ranking.model_dump()
    rows = _fused(candidates, counts=weights["fusion"] > 0)
    _add_closeness(rows, candidates, similarities)
    half_life, floor = profile.time_decay_half_life_hours, profile.recency_floor
    for row, (_, memory) in zip(rows, candidates, strict=True):
        row["recency"] = recency(memory.ts, now, half_life_hours=half_life, floor=floor)
        if named_speaker is not None:
            row["speaker"] = 1.0 if memory.speaker == named_speaker else 0.0
    _add_time(rows, candidates, time, session_id, tells=weights["tells_time"] > 0)
    for name, source in _BY_SOURCE:
        if weights[name]:
            _add_stretched(rows, candidates, name, source)
    if weights["session"]:
        _add_session(rows, candidates)
    _add_of_the_text(rows, candidates, weights)
    for name, values in further.items():
        for row, (candidate, _) in zip(rows, candidates, strict=True):
            row[name] = values.get(candidate.key, 0.0)
    return rows


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


def _fused(candidates: Sequence[Found], *, counts: bool) -> list[Parts]:
    best = max([candidate.fused for candidate, _ in candidates], default=0.0) or 1.0
    return [{"fusion": candidate.fused / best if counts else 0.0} for candidate, _ in candidates]


def _add_closeness(rows: Sequence[Parts], candidates: Sequence[Found], similarities: Mapping[int, float]) -> None:
    """The cosine, and that of the closer turn beside it: people answer a question one turn later.

    A memory that the dense search did not reach is no closer than the last one that it did.
    """
    reached = [candidate.scores["vector"] for candidate, _ in candidates if "vector" in candidate.scores]
    if not reached:
        return
    farthest = _share(min(reached))
    for row, (candidate, memory) in zip(rows, candidates, strict=True):
        near = candidate.scores.get("vector")
        row["similarity"] = farthest if near is None else _share(near)
        beside = farthest
        for key in memory.beside:
            if (near := similarities.get(key)) is not None and near > beside:
                beside = _share(near)
        row["neighbour"] = beside


def _add_time(
    rows: Sequence[Parts], candidates: Sequence[Found], time: QuestionTime, session_id: str | None, *, tells: bool
) -> None:
    """An undated memory is neither of the time that the question names nor of another: it has no part `time`."""
    named = session_named(candidates, time, session_id)
    if not (time.intervals or named is not None or (time.asks_when and tells)):
        return
    for row, (_, memory) in zip(rows, candidates, strict=True):
        if time.intervals and (near := overlap(time.intervals, memory.ts, memory.until)) is not None:
            row["time"] = near
        elif named is not None:
            row["time"] = 1.0 if memory.session_id == named else 0.0
        if time.asks_when and tells:
            row["tells_time"] = 1.0 if tells_time(memory.text) else 0.0


def _add_stretched(rows: Sequence[Parts], candidates: Sequence[Found], name: str, source: SourceName) -> None:
    """A source's score, stretched over the candidates to [0, 1]; none where the source found none of them."""
    scores = [candidate.scores.get(source) for candidate, _ in candidates]
    found = [score for score in scores if score is not None]
    if not found:
        return
    low, span = min(found), max(found) - min(found)
    for row, score in zip(rows, scores, strict=True):
        row[name] = 0.0 if score is None else (score - low) / span if span > 0 else 1.0


def _add_session(rows: Sequence[Parts], candidates: Sequence[Found]) -> None:
    """The best fused score of a memory's session: where one turn answers, those around it tell more.

    Over the candidates alone: with all hits recall was the same on judged questions, and their sessions would have
    to be looked up. A memory without a session is one of its own.
    """
    best: dict[str, float] = {}
    top = max([candidate.fused for candidate, _ in candidates], default=0.0) or 1.0
    for candidate, memory in candidates:
        if memory.session_id is not None and candidate.fused > best.get(memory.session_id, 0.0):
            best[memory.session_id] = candidate.fused
    for row, (candidate, memory) in zip(rows, candidates, strict=True):
        alone = memory.session_id is None
        row["session"] = (candidate.fused if alone else best.get(memory.session_id or "", 0.0)) / top


def _add_of_the_text(rows: Sequence[Parts], candidates: Sequence[Found], weights: Mapping[str, float]) -> None:
    """What a text is, whatever was asked."""
    if weights["length"]:
        for row, (_, memory) in zip(rows, candidates, strict=True):
            row["length"] = min(1.0, len(memory.text) / WHOLE_LENGTH)
    if weights["after_question"]:
        for row, (_, memory) in zip(rows, candidates, strict=True):
            row["after_question"] = 1.0 if memory.after_question else 0.0
    if weights["first_person"]:
        for row, (_, memory) in zip(rows, candidates, strict=True):
            row["first_person"] = 1.0 if memory.first_person else 0.0


def _share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)
