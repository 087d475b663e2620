"""Further layers of memory, searched while the answer is not sure enough.

    first layer -> sure enough? -> the layers that it names, at once -> sure enough? -> the layers that these name …

It ends when the confidence reaches the threshold (strictly under it, it goes on), at the depth limit, when there is
no further layer, or when no time is left. What several layers found is one pool with one composite score. The
question is understood and embedded once; every layer is one look by the pipeline's own stages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from orion_recall.profile import Profile
from orion_recall.profile.cascade import Cascade, Layer, LayerName
from orion_recall.recall.cascade.layers import Limits, check_profiles, profile_of_layer, scope_of_layer
from orion_recall.recall.cascade.merge import Member, Merged, merged, one_pool
from orion_recall.recall.confidence.factors import Confidence, confidences
from orion_recall.recall.pass_result import Found
from orion_recall.values import Question, Scope, ScoredCandidate, SourceName

Ended = Literal["confident", "depth", "no_layer", "deadline"]
# With less time than this a layer is not begun: nothing could come back.
_LEAST_S = 0.01


class Look(Protocol):
    """The pipeline's stages from search to rank, for one profile and scope; what is `given` is ranked as it is."""

    async def __call__(
        self,
        profile: Profile,
        scope: Scope,
        *,
        timeout_s: float,
        is_first: bool = False,
        given: Found | None = None,
    ) -> Found: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One layer of the path. `confidence` is its first item's, None when it found none.

    `late` are the sources that the deadline cut; `not_asked` says why the layer was not searched at all.
    """

    layer: LayerName
    depth: int
    hits: int = 0
    ranked: int = 0
    confidence: float | None = None
    ms: float = 0.0
    late: tuple[SourceName, ...] = ()
    not_asked: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """A cascade that has ended. `found` is the whole of it as one look.

    `confidences` are by key, as are `layers`; `firsts` are the keys of the layers' first items. `before` holds
    the items as they were ranked before they were merged.
    """

    found: Found
    path: tuple[Step, ...]
    ended: Ended
    limits: Limits
    confidences: Mapping[int, Confidence]
    layers: Mapping[int, LayerName]
    firsts: frozenset[int]
    before: Mapping[int, ScoredCandidate]

    @property
    def depth(self) -> int:
        """How many times the next layers were asked."""
        return max(step.depth for step in self.path if step.not_asked is None or step.depth == 0)

    @property
    def is_merged(self) -> bool:
        """Whether several layers had something to put together."""
        return bool(self.before)


async def descend(
    limits: Limits,
    look: Look,
    profile: Profile,
    question: Question,
    *,
    others: Mapping[str, Profile],
    timeout_s: float,
) -> Descent | None:
    """From the first layer on, until it is sure enough or may not go on.

    `timeout_s` is for all of it, and the profile's own deadline for what comes after the first layer. None when no
    layer may see what the query asks for, as memories of a kind that is no layer's.
    """
    check_profiles(limits.cascade, others)
    until = time.perf_counter() + timeout_s
    path: list[Step] = []
    members: dict[LayerName, Member] = {}
    names: Sequence[LayerName] = (limits.first,)
    depth = 0
    while True:
        looks = await _round(names, limits, look, profile, others=others, until=until, depth=depth)
        for name, (step, found) in looks.items():
            if found is not None:
                members[name] = _member(found, limits.cascade.layers.named(name), limits, question, profile)
                first = members[name].first
                step = replace(step, confidence=None if first is None else first.overall)
            path.append(step)
        if depth == 0:
            until = min(until, time.perf_counter() + limits.cascade.timeout_ms / 1000)
        names = _next(names, path, limits.cascade)
        if max([one.confidence or 0.0 for one in path]) >= limits.threshold:
            ended: Ended = "confident"
        elif depth >= limits.max_depth:
            ended = "depth"
        elif not names:
            ended = "no_layer"
        elif until - time.perf_counter() < _LEAST_S:
            ended = "deadline"
            path += [Step(layer=name, depth=depth + 1, not_asked="no time was left") for name in names]
        else:
            depth += 1
            continue
        if not members:
            return None
        pooled = await _pooled(limits, look, profile, members, timeout_s=until - time.perf_counter())
        return _descent(
            limits, path, ended, merged(members, pooled, limits.cascade.merge, profile, now=question.now)
        )


async def _round(
    names: Sequence[LayerName],
    limits: Limits,
    look: Look,
    profile: Profile,
    *,
    others: Mapping[str, Profile],
    until: float,
    depth: int,
) -> dict[LayerName, tuple[Step, Found | None]]:
    """The layers of one depth, searched at once."""

    async def one(name: LayerName) -> tuple[Step, Found | None]:
        layer = limits.cascade.layers.named(name)
        scope = scope_of_layer(layer, limits)
        if isinstance(scope, str):
            return Step(layer=name, depth=depth, not_asked=scope), None
        began = time.perf_counter()
        by = profile_of_layer(layer, profile, limits.most, others)
        found = await look(by, scope, timeout_s=until - began, is_first=depth == 0)
        step = Step(
            layer=name,
            depth=depth,
            hits=len(found.keys),
            ranked=len(found.ranked),
            ms=(time.perf_counter() - began) * 1000,
            late=tuple(report.source for report in found.reports if report.status == "late"),
        )
        return step, found

    tasks: dict[LayerName, asyncio.Task[tuple[Step, Found | None]]] = {}
    async with asyncio.TaskGroup() as group:
        for name in names:
            tasks[name] = group.create_task(one(name))
    return {name: task.result() for name, task in tasks.items()}


def _next(asked: Sequence[LayerName], path: Sequence[Step], cascade: Cascade) -> tuple[LayerName, ...]:
    """What the layers that were asked name, in their order, less what was asked before."""
    seen = {step.layer for step in path}
    named: list[LayerName] = [
        then for name in asked for then in cascade.layers.named(name).then if then not in seen
    ]
    return tuple(dict.fromkeys(named))


def _member(found: Found, layer: Layer, limits: Limits, question: Question, profile: Profile) -> Member:
    items = found.ranked[: limits.most]
    sure = confidences(items, found.scored, question, profile, told_again=found.told_again)
    return Member(found=found, items=items, confidences=sure, weight=layer.weight)


async def _pooled(
    limits: Limits, look: Look, profile: Profile, members: Mapping[LayerName, Member], *, timeout_s: float
) -> Mapping[int, ScoredCandidate]:
    """The items of all layers ranked as one pool, by key, where their score counts and there is something to merge.

    A layer's own scores are relative to its best: those of two layers could not be compared.
    """
    is_needed = limits.cascade.merge.score > 0 and sum(bool(member.items) for member in members.values()) > 1
    if not is_needed or timeout_s < _LEAST_S:
        return {}
    pool = one_pool(members.values())
    ranked = await look(
        profile.model_copy(update={"rank_pool": len(pool.keys)}), limits.scope, timeout_s=timeout_s, given=pool
    )
    return {item.candidate.key: item for item in ranked.scored}


def _descent(limits: Limits, path: Sequence[Step], ended: Ended, together: Merged) -> Descent:
    return Descent(
        found=together.found,
        path=tuple(path),
        ended=ended,
        limits=limits,
        confidences=together.confidences,
        layers=together.layers,
        firsts=together.firsts,
        before=together.before,
    )
