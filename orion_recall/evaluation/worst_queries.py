"""The queries with the worst scores under a profile: the ranks of their evidence, why, and what ranks above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.failure_types import FailureType, FailureTypes
from orion_recall.evaluation.measures import Wanted, measure
from orion_recall.evaluation.trials import Trials, line_of
from orion_recall.profile import Profile
from orion_recall.recall.types import Recalled
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import memory_key
from orion_recall.values import NO_TIME, MemoryView

_TELLING = 3
_TOLD_FROM = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One ranked memory: its rank from 1, its score and the score's parts."""

    id: str
    rank: int
    score: float
    parts: Mapping[str, float]
    speaker: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One memory of the evidence: its rank (None: not ranked), and why it is not ranked higher."""

    id: str
    rank: int | None
    why: str
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstQuery:
    """One query, its value of the measure, its evidence, and the best ranked memories.

    `failures` are the types of its failure: what the relevant memories below `depth` have in common with it.
    """

    query: JudgedQuery
    value: float
    evidence: tuple[Evidence, ...]
    found: tuple[Ranked, ...]
    failures: tuple[FailureType, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The worst queries, and of all below 1 how many there are and how often each type of failure."""

    queries: Sequence[WorstQuery]
    below: int
    failures: Counter[FailureType] = field(default_factory=Counter[FailureType])


async def worst(trials: Trials, *, by: str, limit: int, depth: int = 5, shown: int = 3) -> Worst:
    """The `limit` worst queries by the measure `by`; of equals those first whose evidence ranks lowest.

    Evidence is compared with the memory at rank `depth`; `shown` memories of the ranking are returned.
    """
    profile = trials.plan.profile
    types, counted = FailureTypes(), Counter[FailureType]()
    seen: list[tuple[float, float, WorstQuery]] = []
    async for query, recalled in trials.recalls(profile, what=profile.profile):
        if not query.scored or not query.evidence:
            continue
        measured = measure({query.id: line_of(recalled)}, [query], Wanted(depths=_depths(by, depth)))
        value = float(measured.values[0, measured.measures.index(by)])
        if value < 1:
            one = _looked_into(query, recalled, profile, value, depth=depth, shown=shown)
            one = replace(one, failures=await _failures(trials, types, one, recalled, depth))
            counted.update(one.failures)
            seen.append((value, -max(each.rank or 10_000 for each in one.evidence), one))
    seen.sort(key=lambda each: each[:2])
    return Worst(queries=[one for _, _, one in seen[:limit]], below=len(seen), failures=counted)


async def _failures(
    trials: Trials, types: FailureTypes, one: WorstQuery, recalled: Recalled, depth: int
) -> tuple[FailureType, ...]:
    """The types of a query's failure, by the texts of the evidence that is not among the first `depth`."""
    index = trials.opened.index
    names = [each.id for each in one.evidence if each.rank is None or each.rank > depth]
    keys = [memory_key(one.query.conversation, name) for name in names]
    read: Mapping[int, MemoryView] = await index.fetch(keys) if index is not None and keys else {}
    time = recalled.understood.question.time if recalled.understood is not None else NO_TIME
    best = recalled.ranked[0].memory if recalled.ranked else None
    return types.of(one.query, [read[key] for key in keys if key in read], best=best, time=time)


def _depths(by: str, depth: int) -> tuple[int, ...]:
    _, at, k = by.partition("@")
    return tuple(dict.fromkeys((depth, *([int(k)] if at and k.isdigit() else []))))


def _looked_into(
    query: JudgedQuery, recalled: Recalled, profile: Profile, value: float, *, depth: int, shown: int
) -> WorstQuery:
    places = {item.memory.id: place for place, item in enumerate(recalled.ranked)}
    rival = recalled.ranked[min(depth, len(recalled.ranked)) - 1] if recalled.ranked else None
    evidence: list[Evidence] = []
    for name in sorted(query.evidence):
        if (place := places.get(name)) is not None:
            item = recalled.ranked[place]
            why = "" if place < depth or rival is None else _behind(item, rival, profile)
            evidence.append(Evidence(id=name, rank=place + 1, why=why, parts=item.parts))
        else:
            why = _left_out(memory_key(query.conversation, name), recalled)
            evidence.append(Evidence(id=name, rank=None, why=why, parts={}))
    return WorstQuery(
        query=query,
        value=value,
        evidence=tuple(evidence),
        found=tuple(
            Ranked(
                id=item.memory.id,
                rank=place,
                score=item.score,
                parts=item.parts,
                speaker=item.memory.speaker,
                text=item.memory.text,
            )
            for place, item in enumerate(recalled.ranked[:shown], 1)
        ),
    )


def _behind(item: ScoredCandidate, rival: ScoredCandidate, profile: Profile) -> str:
    """The score parts that cost the item most against its rival."""
    weights = rival.weights
    total = sum(weights[name] for name in rival.parts if name in weights) or 1.0
    lost = {
        name: weights[name] * (rival.parts[name] - item.parts.get(name, 0.0)) / total
        for name in rival.parts
        if weights.get(name)
    }
    most = sorted([(-value, name) for name, value in lost.items() if value >= _TOLD_FROM])[:_TELLING]
    return ", ".join(f"{name} {value:+.3f}" for value, name in most) or "nearly as good"


def _left_out(key: int, recalled: Recalled) -> str:
    if recalled.result and any(item.candidate.key == key for item in recalled.result.scored):
        return "near-duplicate of a better one, or below the profile's min_score"
    ranks = {
        report.source: place
        for report in recalled.reports
        for place, hit in enumerate(report.hits, 1)
        if hit.key == key
    }
    if ranks:
        told = ", ".join(f"{source} at {place}" for source, place in ranks.items())
        return f"found by {told}, and not among those that were ranked"
    return "no source found it"
