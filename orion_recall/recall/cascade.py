"""The cascade: layers of memory are searched until the confidence of the answer reaches the threshold.

    first layer -> confident? -> the layers that it names, at once -> confident? -> the layers that these name …

It ends when a layer's first item has the confidence and the relevance that are asked for, at the depth limit, when
there is no further layer, or when no time is left. The results of several layers become one pool with one composite
score. The question is understood and embedded once; every layer is one search pass.

composite = (0.5 confidence + 0.3 layer weight + 0.2 recency) / the weights' sum

The weights are the profile's. It may also count the score that items get when all layers are ranked as one pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from orion_recall.contracts import RecallOptionsV1
from orion_recall.contracts.recall import NotAsked
from orion_recall.profile import Profile
from orion_recall.profile.sections import Cascade, Layer, LayerName, MergeWeights
from orion_recall.recall.confidence.answer import Confidence, confidences
from orion_recall.recall.pass_result import Dropped, PassResult, StageTimes
from orion_recall.recall.ranking.score import combine, in_order, said_once
from orion_recall.recall.search.all_sources import SILENT, or_else
from orion_recall.recall.successors import successors_first
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate, recency
from orion_recall.sources.record import MemoryUse, RecordFacts
from orion_recall.values import SOURCE_NAMES, Hit, Scope, SourceName, SourceReport

Ended = Literal["confident", "depth", "no_layer", "deadline"]
# With less time than this a layer is not begun: nothing could come back.
_LEAST_S = 0.01
# How the first items of a layer were used is read in this time, or not at all.
_USES_READ, _USES_S = 50, 0.1

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


class RunPass(Protocol):
    """Runs a search pass with one profile and scope; the hits of `given` are ranked without a search."""

    async def __call__(
        self,
        profile: Profile,
        scope: Scope,
        *,
        timeout_s: float,
        stages: StageTimes,
        given: PassResult | None = None,
    ) -> PassResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One layer of the cascade's path. `confidence` is its first item's, None when it found none.

    `relevance` is the semantic relevance of that item, None where only its words tell of it. `late` are the sources
    that missed the deadline; `not_asked` says why the layer was not searched.
    """

    layer: LayerName
    depth: int
    hits: int = 0
    ranked: int = 0
    confidence: float | None = None
    relevance: float | None = None
    ms: float = 0.0
    late: tuple[SourceName, ...] = ()
    not_asked: NotAsked | None = None

    def is_sure(self, limits: Limits) -> bool:
        """Whether the layer's answer is sure enough: nothing is that has little to do with the question."""
        least = limits.cascade.min_relevance
        return (self.confidence or 0.0) >= limits.threshold and (least == 0 or (self.relevance or 0.0) >= least)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeRun:
    """A finished cascade. `result` is the merged result of all its passes.

    `confidences` and `layers` are by key; `firsts` are the keys of the layers' first items. `is_merged`: items of
    several layers were."""

    result: PassResult
    path: tuple[Step, ...]
    ended: Ended
    limits: Limits
    confidences: Mapping[int, Confidence]
    layers: Mapping[int, LayerName]
    firsts: frozenset[int]
    is_merged: bool


async def run_cascade(
    limits: Limits,
    run_pass: RunPass,
    profile: Profile,
    understood: Understanding,
    stages: StageTimes,
    *,
    timeout_s: float,
    facts: RecordFacts | None = None,
) -> CascadeRun | None:
    """Run the cascade from its first layer on, which counts in `stages`; `facts` tell how memories were used.

    `timeout_s` is for all layers, and the profile's own deadline for those after the first. None when no layer may
    see what the query asks for, such as memories of a kind that no layer has.
    """
    until = time.perf_counter() + timeout_s
    path: list[Step] = []
    members: dict[LayerName, LayerResult] = {}
    names: Sequence[LayerName] = (limits.first,)
    depth = 0
    while True:
        passes = await _round(names, limits, run_pass, profile, stages, until=until, depth=depth)
        for name, (step, result) in passes.items():
            if result is not None:
                layer = limits.cascade.layers.named(name)
                # Those that say the same are items of their own until all layers are merged.
                said = [one for item in result.ranked for one in (replace(item, same=()), *item.same)]
                items = said[: limits.most]
                sure = confidences(
                    items,
                    result.scored,
                    understood.question,
                    profile,
                    repeated=result.repeated,
                    uses=await _uses(result, facts, limits, until=until),
                )
                members[name] = member = LayerResult(result=result, items=items, confidences=sure, layer=layer)
                step = _with_first(step, member)
            path.append(step)
        if depth == 0:
            until = min(until, time.perf_counter() + limits.cascade.timeout_ms / 1000)
        names = _next(names, path, limits.cascade)
        if any(one.is_sure(limits) for one in path):
            ended: Ended = "confident"
        elif depth >= limits.max_depth:
            ended = "depth"
        elif not names:
            ended = "no_layer"
        elif until - time.perf_counter() < _LEAST_S:
            ended = "deadline"
            path += [Step(layer=name, depth=depth + 1, not_asked="no_time") for name in names]
        else:
            depth += 1
            continue
        if not members:
            return None
        pooled = await _pooled(limits, run_pass, profile, members, timeout_s=until - time.perf_counter())
        return merged(members, pooled, limits, profile, understood, path=path, ended=ended)


async def _round(
    names: Sequence[LayerName],
    limits: Limits,
    run_pass: RunPass,
    profile: Profile,
    stages: StageTimes,
    *,
    until: float,
    depth: int,
) -> dict[LayerName, tuple[Step, PassResult | None]]:

    async def one(name: LayerName) -> tuple[Step, PassResult | None]:
        layer = limits.cascade.layers.named(name)
        scope = scope_of_layer(layer, limits)
        if isinstance(scope, str):
            return Step(layer=name, depth=depth, not_asked=scope), None
        began = time.perf_counter()
        by = profile_of_layer(layer, profile, limits.most)
        result = await run_pass(by, scope, timeout_s=until - began, stages=StageTimes() if depth else stages)
        step = Step(
            layer=name,
            depth=depth,
            hits=len(result.keys),
            ranked=len(result.ranked),
            ms=(time.perf_counter() - began) * 1000,
            late=tuple(report.source for report in result.reports if report.status == "late"),
        )
        return step, result

    tasks: dict[LayerName, asyncio.Task[tuple[Step, PassResult | None]]] = {}
    async with asyncio.TaskGroup() as group:
        for name in names:
            tasks[name] = group.create_task(one(name))
    return {name: task.result() for name, task in tasks.items()}


def _next(asked: Sequence[LayerName], path: Sequence[Step], cascade: Cascade) -> tuple[LayerName, ...]:
    seen = {step.layer for step in path}
    named: list[LayerName] = [
        then for name in asked for then in cascade.layers.named(name).then if then not in seen
    ]
    return tuple(dict.fromkeys(named))


async def _uses(
    result: PassResult, facts: RecordFacts | None, limits: Limits, *, until: float
) -> Mapping[str, MemoryUse]:
    """How the layer's first items were used, by id; none while the record is away or slow."""
    nothing: Mapping[str, MemoryUse] = {}
    ids = [item.memory.id for item in result.ranked[:_USES_READ]]
    if facts is None or not limits.cascade.meta_memory or not ids:
        return nothing
    return await or_else(facts.uses(limits.scope.tenant, ids), nothing, min(until - time.perf_counter(), _USES_S))


def _with_first(step: Step, member: LayerResult) -> Step:
    """The step with the confidence of the layer's first item, and its relevance where more than words tells of it:
    its meaning, a reranker, or a path to it."""
    if not member.items:
        return step
    first = member.items[0]
    sure = member.confidences[first.candidate.key]
    is_known = "rerank" in first.parts or first.candidate.path > 0 or member.is_compared
    return replace(step, confidence=sure.overall, relevance=sure.semantic_relevance if is_known else None)


async def _pooled(
    limits: Limits,
    run_pass: RunPass,
    profile: Profile,
    members: Mapping[LayerName, LayerResult],
    *,
    timeout_s: float,
) -> Mapping[int, ScoredCandidate]:
    """The items of all layers ranked as one pool, by key, where their score counts and there is something to merge.

    A layer's own scores are relative to its best: those of two layers could not be compared.
    """
    is_needed = limits.merge.weights["score"] > 0 and sum(bool(member.items) for member in members.values()) > 1
    if not is_needed or timeout_s < _LEAST_S:
        return {}
    pool = pool_of(members.values())
    ranked = await run_pass(
        profile.model_copy(update={"rank_pool": len(pool.keys)}),
        limits.scope,
        timeout_s=timeout_s,
        stages=StageTimes(),
        given=pool,
    )
    return {item.candidate.key: item for item in ranked.scored}


def merged(
    members: Mapping[LayerName, LayerResult],
    pooled: Mapping[int, ScoredCandidate],
    limits: Limits,
    profile: Profile,
    understood: Understanding,
    *,
    path: Sequence[Step] = (),
    ended: Ended = "no_layer",
) -> CascadeRun:
    """One order of all layers' items, best first, without near-duplicates.

    `pooled` are the items as they were ranked together, by key; an item that is not there keeps its layer's score.
    A memory that several layers found belongs to the one that searches for its kind, else to one that compared its
    meaning, else to the one where its composite score is highest. Where only one layer has items, they stay as they
    are. A memory stands after what succeeds it."""
    whole = united(members.values())
    best: dict[int, tuple[ScoredCandidate, LayerName]] = {}
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
                best[key], claims[key] = (made, name), claim
    ranked: Sequence[ScoredCandidate] = whole.ranked
    if are_several:
        ranked = successors_first(in_order(item for item, _ in best.values()), profile.superseded, now=now)
    whole = replace(whole, ranked=tuple(said_once(ranked, whole.dropped)))
    return CascadeRun(
        result=whole,
        path=tuple(path),
        ended=ended,
        limits=limits,
        confidences={key: members[name].confidences[key] for key, (_, name) in best.items()},
        layers={key: name for key, (_, name) in best.items()},
        firsts=frozenset(member.items[0].candidate.key for member in members.values() if member.items),
        is_merged=are_several and bool(best),
    )


def pool_of(members: Iterable[LayerResult]) -> PassResult:
    """The layers' hits with one list a source, best first, to be ranked as one pool."""
    each = list(members)
    keys = {item.candidate.key for member in each for item in member.items}
    whole = united(each)

    def kept(report: SourceReport) -> SourceReport:
        hits = sorted((hit for hit in report.hits if hit.key in keys), key=lambda hit: (-hit.score, hit.key))
        return replace(report, hits=tuple(hits))

    return replace(whole, reports=tuple(map(kept, whole.reports)), within=tuple(map(kept, whole.within)))


def _composite(
    item: ScoredCandidate, member: LayerResult, weights: Mapping[str, float], profile: Profile, now: float
) -> ScoredCandidate:
    half_life, floor = profile.half_life_hours, profile.recency_floor
    parts = {
        "score": item.score,
        "confidence": member.confidences[item.candidate.key].overall,
        "layer": member.layer.weight,
        "recency": recency(item.memory.ts, now, half_life_hours=half_life, minimum=floor),
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
