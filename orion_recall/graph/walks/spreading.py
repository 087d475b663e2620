"""Scores of nodes by their nearness to seeds, over a bounded list of links: three pure algorithms."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

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
