"""Walks over the graph: paths, and scores of nodes by their nearness to seeds.

The path search goes from one entity to another, or along a possessive chain ("Ana's sister's employer"): A* over
edges. Every edge costs 1 and more, and the estimate of the rest is the least number of edges still to follow. It
never overestimates: the first path is the cheapest of the edges read (Hart, Nilsson, Raphael, 1968). The scores are
three pure algorithms over a bounded list of links.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal, NamedTuple

import numpy as np

from orion_recall.errors import TransientSourceError
from orion_recall.graph.relation_words import SYMMETRIC, fitting, folded
from orion_recall.graph.tenant_graph import Edge, EdgeMemory, TenantGraph
from orion_recall.interfaces import GraphStore
from orion_recall.values import Scope, TimeRange

Ended = Literal["found", "exhausted", "expansions", "deadline"]
_AT_ONCE = 16
# The most that each part adds to an edge's cost of 1.
_LABEL, _BACKWARDS, _RECENCY, _WEIGHT, _DEGREE, _TIME = 3.0, 0.5, 0.3, 0.3, 1.0, 1.0
_HALF_LIFE_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBounds:
    """Limits of a search. At most `edges` of a node are read; with `via`, among its first `scan`."""

    max_hops: int = 4
    max_expansions: int = 300
    edges: int = 64
    scan: int = 2_000
    paths: int = 1
    memories: int = 5
    deadline_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a path, followed from `source` to `target` (names), with its evidence and its cost by parts."""

    source: str
    relation: str
    target: str
    text: str
    weight: float
    seen: float | None
    memories: tuple[EdgeMemory, ...]
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Path:
    """A path and its cost. `entities` are names, one more than there are steps."""

    entities: tuple[str, ...]
    steps: tuple[Step, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths that a search found, cheapest first, and how it ended: all were read, or a bound was reached."""

    paths: tuple[Path, ...]
    ended: Ended


@dataclass(frozen=True, slots=True)
class _Reached:
    node: str
    depth: int
    spent: float
    edge: Edge | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    before: _Reached | None = None

    def way(self) -> list[_Reached]:
        found: list[_Reached] = [self]
        while found[-1].before is not None:
            found.append(found[-1].before)
        return found[::-1]


async def find_path(
    store: GraphStore,
    tenant: str,
    seed: str,
    target: str | None = None,
    *,
    via: Sequence[str] = (),
    now: float,
    bounds: PathBounds = PathBounds(),
    scope: Scope | None = None,
    during: Sequence[TimeRange] = (),
) -> Paths:
    """The cheapest paths from `seed` to `target` (IRIs of entities), `bounds.paths` of them with different ends.

    With `via` the edges must fit these words, one after the other; `target` is then optional. Recency is the age at
    `now` (epoch seconds). With `during` (epoch seconds) an edge costs more of which no memory tells of one of these
    intervals. With a `scope` only its memories are evidence, and a path with a step without evidence is dropped.
    Running out of time is no error: what was found is returned.
    """
    if target is None and not via:
        raise ValueError("a path needs a target or words to go along")
    # Ends are found among the statements of all; their evidence tells which of them the scope has.
    is_whole = scope is None or scope == Scope(tenant=scope.tenant)
    searched = bounds if is_whole else replace(bounds, paths=max(bounds.paths, bounds.edges))
    search = _Search(
        graph=TenantGraph(store, tenant), target=target, via=via, now=now, bounds=searched, during=during
    )
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + bounds.deadline_s
    ended: Ended = "deadline"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            ended = await search.run(seed)
    if not search.found:
        return Paths((), ended)
    # Names and evidence of the paths get a second, even when the search used up its time.
    try:
        async with asyncio.timeout_at(max(ends_at, loop.time() + 1.0)):
            paths = await search.as_evidence(scope)
    except TimeoutError as error:
        raise TransientSourceError("the graph found a path, but gave its evidence too late") from error
    if scope is not None:
        paths = tuple(path for path in paths if all(step.memories for step in path.steps))[: bounds.paths]
    return Paths(paths, ended)


@dataclass(slots=True, kw_only=True)
class _Search:
    graph: TenantGraph
    target: str | None
    via: Sequence[str]
    now: float
    bounds: PathBounds
    during: Sequence[TimeRange]
    found: list[_Reached] = field(default_factory=list[_Reached])
    expanded: int = 0
    # The edges of nodes, by layer: with `via` each layer has its own relations.
    _edges: dict[tuple[str, int], list[Edge]] = field(default_factory=dict[tuple[str, int], list[Edge]])
    _near: frozenset[str] | None = None
    _towards: dict[str, list[Edge]] = field(default_factory=dict[str, list[Edge]])
    _fits: list[dict[str, tuple[float, bool]]] = field(default_factory=list[dict[str, tuple[float, bool]]])
    _names: dict[str, str] = field(default_factory=dict[str, str])

    async def run(self, seed: str) -> Ended:
        if self.via:
            self._names = await self.graph.relations()
            names = frozenset(self._names.values())
            self._fits = [fitting(word, names) for word in self.via]
            if not all(self._fits):
                return "exhausted"
        elif self.target is not None:
            await self._read_target(self.target)
        deepest, order = len(self.via) or self.bounds.max_hops, count()
        start = _Reached(seed, 0, 0.0)
        heap: list[tuple[float, int, _Reached]] = [(self._left(seed, 0), next(order), start)]
        best: dict[tuple[str, int], float] = {(seed, 0): 0.0}
        ends: set[str] = set()
        while heap:
            _, _, at = heapq.heappop(heap)
            if best[at.node, at.depth] < at.spent:
                continue
            is_at_end = at.edge is not None and at.depth >= len(self.via)
            if is_at_end and (self.target is None or at.node == self.target):
                if at.node not in ends:
                    ends.add(at.node)
                    self.found.append(at)
                    if len(self.found) >= self.bounds.paths or at.node == self.target:
                        return "found"
                continue
            if at.depth >= deepest:
                continue
            if self.expanded >= self.bounds.max_expansions:
                return "found" if self.found else "expansions"
            self.expanded += 1
            for edge in await self._edges_at(at, heap, deepest):
                if (reached := self._follow(at, edge)) is None:
                    continue
                state = (reached.node, reached.depth)
                if reached.spent < best.get(state, math.inf):
                    best[state] = reached.spent
                    estimate = reached.spent + self._left(reached.node, reached.depth)
                    heapq.heappush(heap, (estimate, next(order), reached))
        return "found" if self.found else "exhausted"

    def _left(self, node: str, depth: int) -> float:
        """A lower bound of the cost from the node to the goal."""
        if self.via:
            return float(len(self.via) - depth)
        if node == self.target:
            return 0.0
        return 1.0 if self._near is None or node in self._near else 2.0

    async def _read_target(self, target: str) -> None:
        """Reads the edges of the target and its neighbours: a hub may cut off the edge that leads there."""
        limit = self.bounds.edges
        edges = (await self.graph.edges([target], limit=limit + 1, during=self.during))[target]
        near = dict.fromkeys(edge.other(target) for edge in edges)
        self._near = frozenset(near) if len(edges) <= limit else None
        further = list(near)[:limit] if self.bounds.max_hops > 1 else []
        beside = await self.graph.edges(further, limit=limit + 1, during=self.during)
        for node, more in ((target, edges), *beside.items()):
            for edge in more:
                self._towards.setdefault(edge.other(node), []).append(edge)

    async def _edges_at(
        self, at: _Reached, heap: Sequence[tuple[float, int, _Reached]], deepest: int
    ) -> list[Edge]:
        """The node's edges; read in one query with those of the nodes that are likely to be next."""
        layer = at.depth if self.via else 0
        if (at.node, layer) not in self._edges:
            together = {at.node: None}
            for _, _, other in heapq.nsmallest(4 * _AT_ONCE, heap):
                fits = other.depth == at.depth if self.via else other.depth < deepest
                is_new = (other.node, layer) not in self._edges and other.node != self.target
                if fits and is_new and len(together) < _AT_ONCE:
                    together[other.node] = None
            relations = [iri for iri, name in self._names.items() if name in self._fits[layer]]
            read = await self.graph.edges(
                list(together), limit=self.bounds.edges + 1, relations=relations if self.via else None,
                scan=self.bounds.scan if self.via else 0, during=self.during,
            )  # fmt: skip
            for node, edges in read.items():
                known = {edge.iri: edge for edge in (*edges, *self._towards.get(node, ()))}
                self._edges[node, layer] = list(known.values())
        return self._edges[at.node, layer]

    def _follow(self, at: _Reached, edge: Edge) -> _Reached | None:
        """The node that the edge leads to, with its cost; None when the edge does not fit or leads back."""
        node = edge.other(at.node)
        if any(one.node == node for one in at.way()):
            return None
        parts = {"hop": 1.0}
        if self.via:
            fit, backwards = self._fits[at.depth].get(edge.name, (0.0, False))
            if fit <= 0.0:
                return None
            parts["label"] = _LABEL * (1.0 - fit)
            against = (edge.object == at.node) != backwards
            parts["direction"] = _BACKWARDS if against and folded(edge.name) not in SYMMETRIC else 0.0
        age = _HALF_LIFE_S if edge.seen is None else max(0.0, self.now - edge.seen)
        parts["recency"] = _RECENCY * (1.0 - 0.5 ** (age / _HALF_LIFE_S))
        if edge.during is not None:
            parts["time"] = 0.0 if edge.during else _TIME
        parts["weight"] = _WEIGHT / (1.0 + math.log2(max(1.0, edge.weight)))
        if at.edge is not None:
            degree = len(self._edges[at.node, at.depth if self.via else 0])
            parts["degree"] = _DEGREE * min(1.0, math.log2(1 + degree) / math.log2(2 + self.bounds.edges))
        return _Reached(node, at.depth + 1, at.spent + sum(parts.values()), edge, parts, at)

    async def as_evidence(self, scope: Scope | None = None) -> tuple[Path, ...]:
        ways = [reached.way() for reached in self.found]
        edges = list({one.edge.iri: None for way in ways for one in way if one.edge is not None})
        memories = await self.graph.edge_memories(edges, limit=self.bounds.memories, scope=scope)
        labels = await self.graph.labels(list({one.node: None for way in ways for one in way}))
        made: list[Path] = []
        for way in ways:
            names = [labels.get(one.node, one.node) for one in way]
            steps: list[Step] = []
            for source, target, one in zip(names, names[1:], way[1:], strict=False):
                edge = one.edge
                assert edge is not None, "every node of a way but the first is reached by an edge"
                cost = {name: round(part, 4) for name, part in one.parts.items()}
                told = tuple(memories[edge.iri])
                steps.append(Step(source, edge.name, target, edge.text, edge.weight, edge.seen, told, cost))
            made.append(Path(tuple(names), tuple(steps), round(way[-1].spent, 4)))
        return tuple(made)


LinkKind = Literal["mentioned", "told", "edge", "mentions"]
_STRENGTH: Mapping[LinkKind, float] = {"mentioned": 0.4, "told": 1.0, "edge": 0.6, "mentions": 0.3}
_ACTIVATION_ROUNDS, _PAGERANK_ROUNDS, _FRONTIER = 3, 20, 32
# From an entity to its memories; to memories about its neighbours; to memories that share an entity with its own.
META_PATHS: tuple[tuple[tuple[LinkKind, ...], float], ...] = (
    (("told",), 1.0),
    (("mentioned",), 0.6),
    (("edge", "told"), 0.5),
    (("edge", "mentioned"), 0.3),
    (("mentioned", "mentions", "mentioned"), 0.2),
)


class Link(NamedTuple):
    """A directed link of weight 1 or more.

    Kinds: entity -> memory `mentioned` (named there) or `told` (an edge of it is stated there); entity -> entity
    `edge`; memory -> entity `mentions`.
    """

    source: str
    target: str
    kind: LinkKind
    weight: float = 1.0


def activation(
    links: Sequence[Link], seeds: Mapping[str, float], *, rounds: int | None = None, decay: float = 0.6
) -> dict[str, float]:
    """The activation of every node that was reached, after 3 rounds by default; the 32 best fire, each once."""
    leaving: dict[str, list[Link]] = defaultdict(list)
    for link in links:
        leaving[link.source].append(link)
    active: dict[str, float] = dict(seeds)
    fired: set[str] = set()
    for _ in range(_ACTIVATION_ROUNDS if rounds is None else rounds):
        waiting = ((value, node) for node, value in active.items() if node in leaving and node not in fired)
        firing = heapq.nlargest(_FRONTIER, waiting)
        if not firing:
            break
        fired.update(node for _, node in firing)
        for value, node in firing:
            damping = decay * value / math.sqrt(len(leaving[node]))
            for link in leaving[node]:
                active[link.target] = active.get(link.target, 0.0) + damping * _strength(link)
    return active


def push(links: Sequence[Link], seeds: Mapping[str, float]) -> dict[str, float]:
    """The mass that arrives along each meta-path, times its weight; a node divides its mass by link strength."""
    leaving: dict[tuple[str, LinkKind], list[Link]] = defaultdict(list)
    for link in links:
        leaving[link.source, link.kind].append(link)
    arrived: dict[str, float] = defaultdict(float)
    for kinds, worth in META_PATHS:
        mass: Mapping[str, float] = seeds
        for kind in kinds:
            moved: dict[str, float] = defaultdict(float)
            for node, value in mass.items():
                ways = leaving.get((node, kind), ())
                total = sum(map(_strength, ways))
                for link in ways:
                    moved[link.target] += value * _strength(link) / total
            mass = moved
        for node, value in mass.items():
            arrived[node] += worth * value
    return dict(arrived)


def pagerank(
    links: Sequence[Link], seeds: Mapping[str, float], *, damping: float = 0.6, rounds: int | None = None
) -> dict[str, float]:
    """The share of time that a random walk, restarted at the seeds, spends at each node; 20 rounds by default.

    With the probability `damping` the walk goes along a link, in either direction and chosen by strength, else it
    starts again at a seed; at a node without links it always does. Power iteration.
    """
    nodes = list(dict.fromkeys((*seeds, *(end for link in links for end in (link.source, link.target)))))
    places = {node: place for place, node in enumerate(nodes)}
    bias = np.array([seeds.get(node, 0.0) for node in nodes])
    if not links or bias.sum() <= 0:
        return dict(seeds)
    ends = [(places[link.source], places[link.target]) for link in links]
    start, end = np.array([*ends, *((two, one) for one, two in ends)]).T
    both = np.array([_strength(link) for link in (*links, *links)])
    leaving = np.bincount(start, weights=both, minlength=len(bias))[start]
    share = np.divide(both, leaving, out=np.zeros_like(both), where=leaving > 0)
    bias = bias / bias.sum()
    rank = bias
    for _ in range(_PAGERANK_ROUNDS if rounds is None else rounds):
        moved = damping * np.bincount(end, weights=rank[start] * share, minlength=len(bias))
        rank = moved + (1.0 - moved.sum()) * bias
    return dict(zip(nodes, rank.tolist(), strict=True))


def _strength(link: Link) -> float:
    return _STRENGTH[link.kind] * (1.0 + math.log2(max(1.0, link.weight)) / 4)
