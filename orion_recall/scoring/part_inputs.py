"""What score parts are made of: the candidates with their memories, and the facts of the query and its searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.scoring.candidates import Candidate
from orion_recall.values import NO_TIME, MemoryView, QuestionTime

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
        farthest=share(min(reached)) if reached else None,
    )


def recency(ts: float | None, now: float, *, half_life_hours: float, minimum: float) -> float:
    """0.5 ^ (age / half-life), never below the minimum (`recency_floor`); 0.5 when undated, 1 for the future."""
    if ts is None:
        return UNDATED_RECENCY
    age_hours = max(0.0, now - ts) / 3600
    return max(minimum, 0.5 ** (age_hours / half_life_hours))


def share(value: float) -> float:
    """The value kept to [0, 1]."""
    return 0.0 if value < 0.0 else min(value, 1.0)
