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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orion_recall.contracts.recall import CascadeStepV1, NotAsked, RecallOptionsV1
from orion_recall.profile import Profile
from orion_recall.profile.sections import Cascade, Layer
from orion_recall.recall.candidates.fuse import Decay, decay_of
from orion_recall.recall.confidence.answer import Confidence, confidences
from orion_recall.recall.ranking.score import combine, in_order, said_once
from orion_recall.recall.search.all_sources import SILENT, or_else
from orion_recall.recall.successors import successors_first
from orion_recall.recall.types import Drop, Dropped, PassResult, StageTimes
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.source_specs import source_names
from orion_recall.sources.record import MemoryUse, RecordFacts
from orion_recall.values import Hit, LayerName, Scope, SourceName, SourceReport

Ended = Literal["confident", "depth", "no_layer", "deadline"]
RunPass = Callable[..., Awaitable[PassResult]]
"""Runs a search pass with one profile and scope, in `timeout_s`; the hits of `given` are ranked without a
search."""
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
    """One query's cascade: the profile's section with the query's options, the first layer, and the scope.

    A layer brings `most` items. A scope that the query itself names (`options`) is no layer's to widen.
    """

    cascade: Cascade
    first: LayerName
    most: int
    scope: Scope
    options: RecallOptionsV1
    session_id: str | None


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
    asked: dict[str, object] = {"threshold": options.confidence_threshold, "max_depth": options.max_cascade_depth}
    if options.merge_strategy is not None:
        asked["merge"] = cascade.merge.model_copy(update={"strategy": options.merge_strategy})
    return Limits(
        cascade=cascade.model_copy(update={name: value for name, value in asked.items() if value is not None}),
        first=cascade.first or FIRST.get(question_class, "semantic"),
        most=min(cascade.over_fetch * (options.k or profile.max_total_items), MOST_OF_A_LAYER),
        scope=scope,
        options=options,
        session_id=session_id,
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
    if limits.options.scope is None:
        scope = replace(scope, session_id=None, user_id=None)  # the profile's, and this layer has its own
    if layer.scope == "session":
        session = limits.session_id
        return "no_session" if session is None else replace(scope, session_id=session)
    if layer.scope == "user":
        user = limits.options.user
        return "no_user" if user is None else replace(scope, user_id=user)
    return scope


def _both(asked: tuple[str, ...], searched: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names in both lists, where an empty list means all; None when there are none."""
    if not asked or not searched:
        return asked or searched
    return tuple(name for name in asked if name in searched) or None


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

    def first(self) -> tuple[float, float | None]:
        """The confidence of the first item, and its relevance where its meaning, a reranker or a path tells of
        it."""
        one = self.items[0]
        sure = self.confidences[one.candidate.key]
        is_known = "rerank" in one.parts or one.candidate.path > 0 or self.is_compared
        return sure.overall, sure.semantic_relevance if is_known else None

    def is_sure(self, cascade: Cascade) -> bool:
        """Whether its answer is sure enough: nothing is that has little to do with the question."""
        overall, relevance = self.first() if self.items else (0.0, None)
        return overall >= cascade.threshold and (relevance or 0.0) >= cascade.min_relevance


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeRun:
    """A finished cascade. `result` is the merged result of all its passes.

    `confidences` and `layers` are by key; `firsts` are the keys of the layers' first items. `is_merged`: items of
    several layers were."""

    result: PassResult
    path: tuple[CascadeStepV1, ...]
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
    path: list[CascadeStepV1] = []
    members: dict[LayerName, LayerResult] = {}
    cascade, depth = limits.cascade, 0
    names: Sequence[LayerName] = (limits.first,)
    nothing: Mapping[str, MemoryUse] = {}

    async def searched(name: LayerName) -> tuple[CascadeStepV1, LayerResult | None]:
        layer, began = cascade.layers.named(name), time.perf_counter()
        scope = scope_of_layer(layer, limits)
        if isinstance(scope, str):
            return _not_asked(name, depth, scope), None
        by = profile.searching(layer.sources or profile.sources_on, limits.most)
        by = by.model_copy(update={"rank_pool": max(profile.rank_pool, limits.most)})
        times = StageTimes() if depth else stages
        result = await run_pass(by, scope, timeout_s=until - began, stages=times)
        ms = round((time.perf_counter() - began) * 1000, 3)
        # Those that say the same are items of their own until all layers are merged.
        said = [one for item in result.ranked for one in (replace(item, same=()), *item.same)]
        items, repeated = said[: limits.most], result.repeated
        uses = nothing  # while the record is away or slow
        ids = [item.memory.id for item in result.ranked[:_USES_READ]]
        if facts is not None and cascade.meta_memory and ids:
            reading = facts.uses(limits.scope.tenant, ids)
            uses = await or_else(reading, nothing, min(until - time.perf_counter(), _USES_S))
        sure = confidences(items, result.scored, understood.question, profile, repeated=repeated, uses=uses)
        member = LayerResult(result=result, items=items, confidences=sure, layer=layer)
        overall, relevance = member.first() if items else (None, None)
        return CascadeStepV1(
            layer=name,
            depth=depth,
            hits=len(result.keys),
            confidence=overall,
            relevance=None if relevance is None else round(relevance, 6),
            ms=ms,
            late=[str(report.source) for report in result.reports if report.status == "late"],
        ), member

    while True:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(searched(name)) for name in names]
        for name, (step, member) in zip(names, [task.result() for task in tasks], strict=True):
            path.append(step)
            if member is not None:
                members[name] = member
        if depth == 0:
            until = min(until, time.perf_counter() + cascade.timeout_ms / 1000)
        seen = {step.layer for step in path}
        thens: list[LayerName] = [then for name in names for then in cascade.layers.named(name).then]
        names = [name for name in dict.fromkeys(thens) if name not in seen]
        wants_nothing = not (members or cascade.threshold or cascade.min_relevance)
        if wants_nothing or any(one.is_sure(cascade) for one in members.values()):
            ended: Ended = "confident"
        elif depth >= cascade.max_depth:
            ended = "depth"
        elif not names:
            ended = "no_layer"
        elif until - time.perf_counter() < _LEAST_S:
            ended = "deadline"
            path += [_not_asked(name, depth + 1, "no_time") for name in names]
        else:
            depth += 1
            continue
        if not members:
            return None
        pooled = await _pooled(limits, run_pass, profile, members, timeout_s=until - time.perf_counter())
        return merged(members, pooled, limits, profile, understood, path=path, ended=ended)


def _not_asked(name: LayerName, depth: int, why: NotAsked) -> CascadeStepV1:
    return CascadeStepV1(layer=name, depth=depth, hits=0, confidence=None, ms=0.0, late=[], not_asked=why)


async def _pooled(
    limits: Limits,
    run_pass: RunPass,
    profile: Profile,
    members: Mapping[LayerName, LayerResult],
    *,
    timeout_s: float,
) -> Mapping[int, ScoredCandidate]:
    """The items of all layers ranked as one pool, by key, where their score counts and there is something to merge:
    a layer's own scores are relative to its best."""
    are_several = sum(bool(member.items) for member in members.values()) > 1
    if not (limits.cascade.merge.weights["score"] > 0 and are_several) or timeout_s < _LEAST_S:
        return {}
    pool = pool_of(members.values())
    by = profile.model_copy(update={"rank_pool": len(pool.keys)})
    ranked = await run_pass(by, limits.scope, timeout_s=timeout_s, stages=StageTimes(), given=pool)
    return {item.candidate.key: item for item in ranked.scored}


def merged(
    members: Mapping[LayerName, LayerResult],
    pooled: Mapping[int, ScoredCandidate],
    limits: Limits,
    profile: Profile,
    understood: Understanding,
    *,
    path: Sequence[CascadeStepV1] = (),
    ended: Ended = "no_layer",
) -> CascadeRun:
    """One order of all layers' items, best first, without near-duplicates.

    `pooled` are the items as they were ranked together, by key; an item that is not there keeps its layer's score.
    A memory that several layers found belongs to the one that searches for its kind, else to one that compared its
    meaning, else to the one where its composite score is highest. Where only one layer has items, they stay as they
    are. A memory stands after what succeeds it."""
    whole = united(members.values())
    best: dict[int, tuple[tuple[bool, bool, float], ScoredCandidate, LayerName]] = {}
    are_several = sum(bool(member.items) for member in members.values()) > 1
    weights, now = limits.cascade.merge.weights, understood.question.now
    decay = decay_of(profile, now)
    for name, member in members.items():
        by_kind, is_compared = bool(member.layer.kinds), member.is_compared
        for in_layer in member.items:
            key = in_layer.candidate.key
            item = pooled.get(key, in_layer)
            made = _composite(item, member, weights, decay) if are_several else item
            claim = (by_kind, is_compared, made.score)
            if key not in best or claim > best[key][0]:
                best[key] = (claim, made, name)
    ranked: Sequence[ScoredCandidate] = whole.ranked
    if are_several:
        ranked = successors_first(in_order(item for _, item, _ in best.values()), profile.superseded, now=now)
    whole = replace(whole, ranked=tuple(said_once(ranked, whole.dropped)))
    return CascadeRun(
        result=whole,
        path=tuple(path),
        ended=ended,
        limits=limits,
        confidences={key: members[name].confidences[key] for key, (*_, name) in best.items()},
        layers={key: name for key, (*_, name) in best.items()},
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
    item: ScoredCandidate, member: LayerResult, weights: Mapping[str, float], decay: Decay
) -> ScoredCandidate:
    parts = {
        "score": item.score,
        "confidence": member.confidences[item.candidate.key].overall,
        "layer": member.layer.weight,
        "recency": decay(item.memory),
    }
    parts = {name: value for name, value in parts.items() if weights[name] > 0}
    return replace(item, score=combine(parts, weights), parts=parts, weights=weights)


def united(members: Iterable[LayerResult]) -> PassResult:
    """Several passes as one, with each memory once; `ranked` are the layers' items in the order of the layers."""
    each = list(members)
    passes = [member.result for member in each]
    items = {item.candidate.key: item for member in each for item in member.items}
    return PassResult(
        reports=tuple(_report(name, passes) for name in source_names()),
        within=tuple(report for one in passes for report in one.within),
        pool=list({candidate.key: candidate for one in passes for candidate in one.pool}.values()),
        memories={key: memory for one in passes for key, memory in one.memories.items()},
        scored=list({item.candidate.key: item for one in passes for item in one.scored}.values()),
        ranked=tuple(items.values()),
        dropped=_dropped(passes, items),
        reranking=next((one.reranking for one in passes if one.reranking is not None), None),
        closeness={key: near for one in passes for key, near in one.closeness.items()},
    )


def _report(name: SourceName, passes: Sequence[PassResult]) -> SourceReport:
    """One source's report over all passes: late or failed as soon as it was so in one of them."""
    asked = [report for one in passes for report in one.reports if report.source == name and report.status != "off"]
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
    for one in passes:
        ranked = (item.candidate.key for first in one.ranked for item in (first, *first.same))
        for key, why in [*one.dropped.each.items(), *((key, Drop("over_fetch")) for key in ranked)]:
            if key not in kept and key not in made.each:
                made.note(why.reason, key, for_key=why.for_key)
    left = {key for one in passes for key in one.keys} - kept.keys() - made.each.keys()
    made["rank_pool"] += len(left)
    return made
