"""The layers of a cascade for one query, and the merge of their results into one pool with one composite score.

composite = (0.5 confidence + 0.3 layer weight + 0.2 recency) / the weights' sum

The weights are the profile's. It may also count the score that items get when all layers are ranked as one pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orion_recall.contracts import RecallOptionsV1
from orion_recall.contracts.recall import NotAsked
from orion_recall.profile import Profile
from orion_recall.profile.sections import Cascade, Layer, LayerName, MergeWeights
from orion_recall.recall.confidence.factors import Confidence
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.ranking.score import combine, in_order, said_once
from orion_recall.recall.search.all_sources import SILENT
from orion_recall.recall.successors import successors_first
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate, recency
from orion_recall.values import SOURCE_NAMES, Hit, Scope, SourceName, SourceReport

# All layers' items are compared with each other: without a limit a large k would cost gigabytes.
MOST_OF_A_LAYER = 300
# The first layer for a question of a class; for a fact, and where the class is not known, semantic.
FIRST: Mapping[str, LayerName] = {
    "temporal": "episodic",
    "relational": "graph",
    "procedural": "procedural",
    "planning": "planning",
    "prospective": "prospective",
    "meta": "meta",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one query's cascade: its depth, its threshold and its scope."""

    cascade: Cascade
    first: LayerName
    threshold: float
    merge: MergeWeights
    max_depth: int
    most: int
    scope: Scope
    asked_scope: bool
    session_id: str | None
    user_id: str | None


def limits_of(
    profile: Profile,
    options: RecallOptionsV1,
    scope: Scope,
    session_id: str | None,
    question_class: str = "factual",
) -> Limits | None:
    """The query's limits; None where neither the query nor its profile has a cascade on."""
    cascade = profile.cascade
    if not (cascade.enabled if options.cascade is None else options.cascade):
        return None
    threshold, depth = options.confidence_threshold, options.max_cascade_depth
    merge = cascade.merge
    if options.merge_strategy is not None:
        merge = merge.model_copy(update={"strategy": options.merge_strategy})
    return Limits(
        cascade=cascade,
        first=cascade.first or FIRST.get(question_class, "semantic"),
        threshold=cascade.threshold if threshold is None else threshold,
        merge=merge,
        max_depth=cascade.max_depth if depth is None else depth,
        most=min(cascade.over_fetch * (options.k or profile.max_total_items), MOST_OF_A_LAYER),
        scope=scope,
        asked_scope=options.scope is not None,
        session_id=session_id,
        user_id=options.user,
    )


def scope_of_layer(layer: Layer, limits: Limits) -> Scope | NotAsked:
    """The scope of a layer, never wider than the query's; or why it can see nothing."""
    kinds = _both(limits.scope.kinds, layer.kinds)
    tags = _both(limits.scope.tags, layer.tags)
    if kinds is None or tags is None:
        return "other_kinds" if kinds is None else "other_tags"
    scope = replace(limits.scope, kinds=kinds, tags=tags)
    if layer.scope is None:
        return scope
    if not limits.asked_scope:
        scope = replace(scope, session_id=None, user_id=None)  # the profile's, and this layer has its own
    if layer.scope == "session":
        session = limits.session_id
        return "no_session" if session is None else replace(scope, session_id=session)
    if layer.scope == "user":
        return "no_user" if limits.user_id is None else replace(scope, user_id=limits.user_id)
    return scope


def _both(asked: tuple[str, ...], searched: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names in both lists, where an empty list means all; None when there are none."""
    if not asked or not searched:
        return asked or searched
    return tuple(name for name in asked if name in searched) or None


def profile_of_layer(layer: Layer, by: Profile, most: int) -> Profile:
    """The profile by which a layer is searched: the query's, with the layer's sources on."""
    sources = layer.sources or by.sources_on
    return by.model_copy(
        update={
            "vector_top_k": most if "vector" in sources else 0,
            "lexical_top_k": most if "lexical" in sources else 0,
            "rdf_top_k": most if "rdf" in sources else 0,
            "enable_sql_timeline": "sql_timeline" in sources,
            "sql_top_k": most,
            "rank_pool": max(by.rank_pool, most),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult:
    """The result of one layer: its items, best first, and the confidence of each, by key."""

    result: PassResult
    items: Sequence[ScoredCandidate]
    confidences: Mapping[int, Confidence]
    layer: Layer

    @property
    def is_compared(self) -> bool:
        """Whether a dense search answered: else only words and paths tell of relevance."""
        return any("vector" in item.candidate.scores for item in self.result.scored)

    @property
    def first(self) -> Confidence | None:
        """The confidence of its first item."""
        return self.confidences[self.items[0].candidate.key] if self.items else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedLayers:
    """The layers as one pass, and each item's confidence, layer and unmerged item, by key.

    `firsts` are the keys of the layers' first items.
    """

    result: PassResult
    confidences: Mapping[int, Confidence]
    layers: Mapping[int, LayerName]
    before: Mapping[int, ScoredCandidate]
    firsts: frozenset[int]


def merged(
    members: Mapping[LayerName, LayerResult],
    pooled: Mapping[int, ScoredCandidate],
    limits: Limits,
    profile: Profile,
    understood: Understanding,
) -> MergedLayers:
    """One order of all layers' items, best first, without near-duplicates.

    `pooled` are the items as they were ranked together, by key; an item that is not there keeps its layer's score.
    A memory that several layers found belongs to the one that searches for its kind, else to one that compared its
    meaning, else to the one where its composite score is highest. Where only one layer has items, they stay as they
    are. A memory stands after what succeeds it."""
    whole = united(members.values())
    best: dict[int, tuple[ScoredCandidate, LayerName, ScoredCandidate]] = {}
    claims: dict[int, tuple[bool, bool, float]] = {}
    are_several = sum(bool(member.items) for member in members.values()) > 1
    weights, now = limits.merge.weights, understood.question.now
    for name, member in members.items():
        by_kind, is_compared = bool(member.layer.kinds), member.is_compared
        for in_layer in member.items:
            key = in_layer.candidate.key
            item = pooled.get(key, in_layer)
            made = _composite(item, member, weights, profile, now) if are_several else item
            claim = (by_kind, is_compared, made.score)
            if key not in best or claim > claims[key]:
                best[key], claims[key] = (made, name, item), claim
    if are_several:
        made = {key: item for key, (item, _, _) in best.items()}
        ordered = successors_first(in_order(made.values()), profile.superseded, now=now)
        whole = replace(whole, ranked=tuple(ordered))
    whole = replace(whole, ranked=tuple(said_once(whole.ranked, whole.dropped)))
    return MergedLayers(
        result=whole,
        confidences={key: members[name].confidences[key] for key, (_, name, _) in best.items()},
        layers={key: name for key, (_, name, _) in best.items()},
        before={key: item for key, (_, _, item) in best.items()} if are_several else {},
        firsts=frozenset(member.items[0].candidate.key for member in members.values() if member.items),
    )


def pool_of(members: Iterable[LayerResult]) -> PassResult:
    """The layers' hits with one list a source, best first, to be ranked as one pool."""
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


def _composite(
    item: ScoredCandidate, member: LayerResult, weights: Mapping[str, float], profile: Profile, now: float
) -> ScoredCandidate:
    parts = {
        "score": item.score,
        "confidence": member.confidences[item.candidate.key].overall,
        "layer": member.layer.weight,
        "recency": recency(
            item.memory.ts,
            now,
            half_life_hours=profile.half_life_hours,
            minimum=profile.recency_floor,
        ),
    }
    parts = {name: value for name, value in parts.items() if weights[name] > 0}
    return replace(item, score=combine(parts, weights), parts=parts, weights=weights)


def united(members: Iterable[LayerResult]) -> PassResult:
    """Several passes as one, with each memory once; `ranked` are the layers' items in the order of the layers."""
    each = list(members)
    passes = [member.result for member in each]
    items = {item.candidate.key: item for member in each for item in member.items}
    return PassResult(
        reports=tuple(_report(name, passes) for name in SOURCE_NAMES),
        within=tuple(report for one_pass in passes for report in one_pass.within),
        pool=list({one.key: one for one_pass in passes for one in one_pass.pool}.values()),
        memories={key: memory for one_pass in passes for key, memory in one_pass.memories.items()},
        scored=list({one.candidate.key: one for one_pass in passes for one in one_pass.scored}.values()),
        ranked=tuple(items.values()),
        dropped=_dropped(passes, items),
        reranking=next((one_pass.reranking for one_pass in passes if one_pass.reranking is not None), None),
        closeness={key: near for one_pass in passes for key, near in one_pass.closeness.items()},
    )


def _report(name: SourceName, passes: Sequence[PassResult]) -> SourceReport:
    """One source's report over all passes: late or failed as soon as it was so in one of them."""
    asked = [
        report
        for one_pass in passes
        for report in one_pass.reports
        if report.source == name and report.status != "off"
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
        fallback=silent.fallback if silent else None,
    )


def _dropped(passes: Sequence[PassResult], kept: Mapping[int, ScoredCandidate]) -> Dropped:
    made = Dropped()
    for one_pass in passes:
        for key, why in one_pass.dropped.each.items():
            if key not in kept and key not in made.each:
                made.note(why.reason, key, for_key=why.for_key)
        for item in (one for first in one_pass.ranked for one in (first, *first.same)):
            if (key := item.candidate.key) not in kept and key not in made.each:
                made.note("over_fetch", key)
    left = {key for one_pass in passes for key in one_pass.keys} - kept.keys() - made.each.keys()
    made["rank_pool"] += len(left)
    return made
