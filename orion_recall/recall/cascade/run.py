"""The cascade: layers of memory are searched until the confidence of the answer reaches the threshold.

    first layer -> confident? -> the layers that it names, at once -> confident? -> the layers that these name …

It ends when a layer's first item has the confidence and the relevance that are asked for, at the depth limit, when
there is no further layer, or when no time is left. The results of several layers become one pool with one composite
score. The question is understood and embedded once; every layer is one search pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from orion_recall.contracts.recall import NotAsked
from orion_recall.errors import SourceError
from orion_recall.profile import Profile
from orion_recall.profile.sections import Cascade, Layer, LayerName
from orion_recall.recall.cascade.layers import (
    LayerResult,
    Limits,
    merged,
    pool_of,
    profile_of_layer,
    scope_of_layer,
)
from orion_recall.recall.confidence.factors import Confidence, confidences
from orion_recall.recall.pass_result import PassResult, StageTimes
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.record import MemoryUse, RecordFacts
from orion_recall.values import Question, Scope, SourceName

Ended = Literal["confident", "depth", "no_layer", "deadline"]
# With less time than this a layer is not begun: nothing could come back.
_LEAST_S = 0.01
# How the first items of a layer were used is read in this time, or not at all.
_USES_READ, _USES_S = 50, 0.1


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

    `confidences` and `layers` are by key; `firsts` are the keys of the layers' first items. `before` holds the
    items as they were ranked before they were merged."""

    result: PassResult
    path: tuple[Step, ...]
    ended: Ended
    limits: Limits
    confidences: Mapping[int, Confidence]
    layers: Mapping[int, LayerName]
    firsts: frozenset[int]
    before: Mapping[int, ScoredCandidate]

    @property
    def depth(self) -> int:
        """How many times next layers were searched."""
        return max(step.depth for step in self.path if step.not_asked is None or step.depth == 0)

    @property
    def is_merged(self) -> bool:
        """Whether items of several layers were merged."""
        return bool(self.before)


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
                uses = await _uses(result, facts, limits, until=until)
                members[name] = _layer_result(result, layer, limits, understood.question, profile, uses)
                if (first := members[name].first) is not None:
                    relevance = first.semantic_relevance if _is_compared(members[name]) else None
                    step = replace(step, confidence=first.overall, relevance=relevance)
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
        together = merged(members, pooled, limits, profile, understood)
        return CascadeRun(
            result=together.result,
            path=tuple(path),
            ended=ended,
            limits=limits,
            confidences=together.confidences,
            layers=together.layers,
            firsts=together.firsts,
            before=together.before,
        )


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
    """The next layers that the searched ones name, in their order, without those already searched."""
    seen = {step.layer for step in path}
    named: list[LayerName] = [
        then for name in asked for then in cascade.layers.named(name).then if then not in seen
    ]
    return tuple(dict.fromkeys(named))


async def _uses(
    result: PassResult, facts: RecordFacts | None, limits: Limits, *, until: float
) -> Mapping[str, MemoryUse]:
    """How the layer's first items were used, by id; none while the record is away or slow."""
    ids = [item.memory.id for item in result.ranked[:_USES_READ]]
    timeout_s = min(until - time.perf_counter(), _USES_S)
    if facts is None or not limits.cascade.meta_memory or not ids or timeout_s <= 0:
        return {}
    try:
        async with asyncio.timeout(timeout_s):
            return await facts.uses(limits.scope.tenant, ids)
    except (SourceError, TimeoutError):
        return {}


def _layer_result(
    result: PassResult,
    layer: Layer,
    limits: Limits,
    question: Question,
    profile: Profile,
    uses: Mapping[str, MemoryUse],
) -> LayerResult:
    # Those that say the same are items of their own until all layers are merged.
    items = tuple(one for item in result.ranked for one in (replace(item, same=()), *item.same))[: limits.most]
    sure = confidences(items, result.scored, question, profile, repeated=result.repeated, uses=uses)
    return LayerResult(result=result, items=items, confidences=sure, layer=layer)


def _is_compared(layer: LayerResult) -> bool:
    """Whether more than words tells of the first item's relevance: its meaning, a reranker, or a path to it."""
    first = layer.items[0]
    if "rerank" in first.parts or first.candidate.path > 0:
        return True
    return layer.is_compared


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
