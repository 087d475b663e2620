"""What several layers found, as one pool with one score.

composite = (0.5 confidence + 0.3 layer weight + 0.2 recency) / the weights' sum

The weights are the profile's: it may also count the score that all items get when they are ranked as one pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orion_recall.profile import Profile
from orion_recall.profile.cascade import LayerName, MergeWeights
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.recall.dropped import Dropped
from orion_recall.recall.pass_result import Found
from orion_recall.recall.ranking.score import combine, in_order, near_duplicates
from orion_recall.recall.search.fallback import SILENT
from orion_recall.scoring.parts import recency
from orion_recall.values import SOURCE_NAMES, Hit, ScoredCandidate, SourceName, SourceReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One layer's part: the items that it brings, best first, and how sure each of them is, by key."""

    found: Found
    items: Sequence[ScoredCandidate]
    confidences: Mapping[int, Confidence]
    weight: float

    @property
    def first(self) -> Confidence | None:
        """How sure its first item is."""
        return self.confidences[self.items[0].candidate.key] if self.items else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The layers as one look, and for each item its confidence, its layer and what it was before, by key.

    `firsts` are the keys of the layers' first items.
    """

    found: Found
    confidences: Mapping[int, Confidence]
    layers: Mapping[int, LayerName]
    before: Mapping[int, ScoredCandidate]
    firsts: frozenset[int]


def merged(
    members: Mapping[LayerName, Member],
    pooled: Mapping[int, ScoredCandidate],
    weights: MergeWeights,
    profile: Profile,
    *,
    now: float,
) -> Merged:
    """One order of all the layers' items, best first, without those that say the same.

    `pooled` are the items as they were ranked together, by key; one that is not there is as its layer ranked it. A
    memory that several layers found counts where its composite score is best. Where only one layer has any, its
    items stay as they are: there is nothing to merge.
    """
    whole = united(members.values())
    best: dict[int, tuple[ScoredCandidate, LayerName, ScoredCandidate]] = {}
    are_several = sum(bool(member.items) for member in members.values()) > 1
    named: dict[str, float] = weights.model_dump()
    for name, member in members.items():
        for in_layer in member.items:
            key = in_layer.candidate.key
            item = pooled.get(key, in_layer)
            made = _composite(item, member, named, profile, now) if are_several else item
            if key not in best or made.score > best[key][0].score:
                best[key] = made, name, item
    if are_several:
        whole = replace(whole, ranked=_ranked([made for made, _, _ in best.values()], profile, whole.dropped))
    return Merged(
        found=whole,
        confidences={key: members[name].confidences[key] for key, (_, name, _) in best.items()},
        layers={key: name for key, (_, name, _) in best.items()},
        before={key: item for key, (_, _, item) in best.items()} if are_several else {},
        firsts=frozenset(member.items[0].candidate.key for member in members.values() if member.items),
    )


def one_pool(members: Iterable[Member]) -> Found:
    """What the layers' items were found by: one list a source, best first, to be ranked as one pool."""
    each = list(members)
    keys = {item.candidate.key for member in each for item in member.items}
    whole = united(each)

    def kept(report: SourceReport) -> SourceReport:
        hits = sorted((hit for hit in report.hits if hit.key in keys), key=lambda hit: (-hit.score, hit.key))
        return replace(report, hits=tuple(hits))

    return replace(
        whole,
        reports=tuple(kept(report) for report in whole.reports),
        within=tuple(kept(report) for report in whole.within),
    )


def _ranked(pool: Sequence[ScoredCandidate], profile: Profile, dropped: Dropped) -> tuple[ScoredCandidate, ...]:
    ordered = in_order(pool)
    repeated = near_duplicates(ordered, profile.near_duplicate_similarity)
    for place, kept in repeated.items():
        dropped.note("near_duplicate", ordered[place].candidate.key, for_key=ordered[kept].candidate.key)
    return tuple(item for place, item in enumerate(ordered) if place not in repeated)


def _composite(
    item: ScoredCandidate, member: Member, weights: Mapping[str, float], profile: Profile, now: float
) -> ScoredCandidate:
    parts = {
        "score": item.score,
        "confidence": member.confidences[item.candidate.key].overall,
        "layer": member.weight,
        "recency": recency(
            item.memory.ts,
            now,
            half_life_hours=profile.time_decay_half_life_hours,
            floor=profile.recency_floor,
        ),
    }
    parts = {name: value for name, value in parts.items() if weights[name] > 0}
    return replace(item, score=combine(parts, weights), parts=parts, weights=weights)


def united(members: Iterable[Member]) -> Found:
    """Several looks as one, each memory in it once; `ranked` are the items that the layers bring, as they come."""
    each = list(members)
    looks = [member.found for member in each]
    items = {item.candidate.key: item for member in each for item in member.items}
    return Found(
        reports=tuple(_report(name, looks) for name in SOURCE_NAMES),
        within=tuple(report for look in looks for report in look.within),
        pool=list({one.key: one for look in looks for one in look.pool}.values()),
        memories={key: memory for look in looks for key, memory in look.memories.items()},
        scored=list({one.candidate.key: one for look in looks for one in look.scored}.values()),
        ranked=tuple(items.values()),
        dropped=_dropped(looks, items),
        reranking=next((look.reranking for look in looks if look.reranking is not None), None),
    )


def _report(name: SourceName, looks: Sequence[Found]) -> SourceReport:
    """How one source did in all of them: a layer for which it was late or failed is not made good by another."""
    asked = [
        report for look in looks for report in look.reports if report.source == name and report.status != "off"
    ]
    if not asked:
        return SourceReport(source=name, status="off")
    hits: dict[int, Hit] = {hit.key: hit for report in reversed(asked) for hit in reversed(report.hits)}
    silent = next((report for report in asked if report.status in SILENT), None)
    return SourceReport(
        source=name,
        status=silent.status if silent else "ok" if hits else "empty",
        hits=tuple(reversed(hits.values())),
        ms=sum(report.ms for report in asked),
        error=silent.error if silent else None,
        stood_in=silent.stood_in if silent else None,
    )


def _dropped(looks: Sequence[Found], kept: Mapping[int, ScoredCandidate]) -> Dropped:
    """Why each memory is not among `kept`, once, however many layers left it out."""
    made = Dropped()
    for look in looks:
        for key, why in look.dropped.each.items():
            if key not in kept and key not in made.each:
                made.note(why.reason, key, for_key=why.for_key)
        for item in look.ranked:
            if (key := item.candidate.key) not in kept and key not in made.each:
                made.note("over_fetch", key)
    left = {key for look in looks for key in look.keys} - kept.keys() - made.each.keys()
    made["rank_pool"] += len(left)
    return made
