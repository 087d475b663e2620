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

from orion_recall.contracts import RecallOptionsV1
from orion_recall.profile import Profile
from orion_recall.profile_cascade import Cascade, Layer, LayerName
from orion_recall.recall.confidence import Confidence, confidences
from orion_recall.recall.found import Found
from orion_recall.recall.merge import Member, merged
from orion_recall.values import QueryClass, Question, Scope, ScoredCandidate, SourceName

Ended = Literal["confident", "depth", "no_layer", "deadline"]
STRATEGY = "confidence_weighted"
# With less time than this a layer is not begun: nothing could come back.
_LEAST_S = 0.01


class Look(Protocol):
    """The pipeline's stages from search to rank, for one profile and scope."""

    async def __call__(self, profile: Profile, scope: Scope, *, timeout_s: float, is_first: bool) -> Found: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far this query's cascade may go, and whose memories it may search."""

    cascade: Cascade
    first: LayerName
    threshold: float
    max_depth: int
    most: int
    scope: Scope
    asked_scope: bool
    session_id: str | None
    user_id: str | None


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

    `confidences` are by key, as are `layers`; `firsts` are the keys of the layers' first items. `before` holds the
    items as their layers ranked them, where they were merged.
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


def limits_of(
    profile: Profile,
    options: RecallOptionsV1,
    scope: Scope,
    session_id: str | None,
    *,
    query_class: QueryClass = "factual",
) -> Limits | None:
    """How far this query goes; None where neither it nor its profile wants a cascade."""
    cascade = profile.cascade
    if not (cascade.enabled if options.cascade is None else options.cascade):
        return None
    threshold, depth = options.confidence_threshold, options.max_cascade_depth
    return Limits(
        cascade=cascade,
        first=cascade.first_for(query_class),
        threshold=cascade.threshold if threshold is None else threshold,
        max_depth=cascade.max_depth if depth is None else depth,
        most=cascade.over_fetch * (options.k or profile.max_total_items),
        scope=scope,
        asked_scope=options.scope is not None,
        session_id=session_id,
        user_id=options.user,
    )


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
    began = time.perf_counter()
    until = began + timeout_s
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
        return _descent(limits, path, ended, members, profile, question.now) if members else None


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


def scope_of_layer(layer: Layer, limits: Limits) -> Scope | str:
    """What the layer may see: never more than the query asks for. Text says why it can see nothing."""
    kinds = _both(limits.scope.kinds, layer.kinds)
    tags = _both(limits.scope.tags, layer.tags)
    if kinds is None or tags is None:
        return f"the query asks for other {'kinds' if kinds is None else 'tags'}"
    scope = replace(limits.scope, kinds=kinds, tags=tags)
    if layer.scope is None:
        return scope
    if not limits.asked_scope:
        scope = replace(scope, session_id=None, user_id=None)  # the profile's, and this layer has its own
    if layer.scope == "session":
        session = limits.session_id
        return "the query has no session" if session is None else replace(scope, session_id=session)
    if layer.scope == "user":
        return "the query has no user" if limits.user_id is None else replace(scope, user_id=limits.user_id)
    return scope


def _both(asked: tuple[str, ...], searched: tuple[str, ...]) -> tuple[str, ...] | None:
    """What is in both lists, where an empty one is everything; None when that is nothing."""
    if not asked or not searched:
        return asked or searched
    return tuple(name for name in asked if name in searched) or None


def profile_of_layer(layer: Layer, profile: Profile, most: int, others: Mapping[str, Profile]) -> Profile:
    """The profile by which a layer is searched: its own or the query's, with the layer's sources on."""
    by = profile if layer.profile is None else others.get(layer.profile, profile)
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


def _member(found: Found, layer: Layer, limits: Limits, question: Question, profile: Profile) -> Member:
    items = found.ranked[: limits.most]
    sure = confidences(items, found.scored, question, profile, told_again=found.told_again)
    return Member(found=found, items=items, confidences=sure, weight=layer.weight)


def _descent(
    limits: Limits,
    path: Sequence[Step],
    ended: Ended,
    members: Mapping[LayerName, Member],
    profile: Profile,
    now: float,
) -> Descent:
    together = merged(members, limits.cascade.merge, profile, now=now)
    return Descent(
        found=together.found,
        path=tuple(path),
        ended=ended,
        limits=limits,
        confidences=together.confidences,
        layers=together.layers,
        firsts=frozenset(member.items[0].candidate.key for member in members.values() if member.items),
        before=together.before,
    )
