"""Paths of possessive chains in the graph: the memories that are evidence for a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import entity_iri
from orion_recall.graph.walks.path import Path, PathBounds, find_path
from orion_recall.text.normal import memory_key, words
from orion_recall.values import Chain, Scope

# Of a node sixteen edges that fit the word are looked at: few have more sisters, and each edge costs a recall time.
_BOUNDS = PathBounds(max_hops=4, max_expansions=60, edges=16, scan=500, paths=2, memories=3)
_MOST_STARTS = 2
# The share of the source's time for following chains; the rest is for its other queries.
_TIME = 0.5


class Evidence(NamedTuple):
    """The share of a memory in a path, in (0, 1], highest for the last step; and the path in words."""

    share: float
    statements: tuple[str, ...]


async def along(
    graph: Queryable,
    chains: Sequence[Chain],
    scope: Scope,
    *,
    labels: Sequence[str],
    now: float,
    timeout_s: float,
) -> Mapping[int, Evidence]:
    """The evidence, by memory, of the first reading with a path; empty when there is none.

    `labels` are entities that the question may name: where nobody is called as a chain's beginning is, it is one of
    them that has all of its words.
    """
    if not chains:
        return {}
    starts = {seed: await _starts(graph, seed, scope, labels) for seed in dict.fromkeys(one.seed for one in chains)}
    searches = [(chain, start) for chain in chains for start in starts[chain.seed]]
    bounds = replace(_BOUNDS, deadline_s=timeout_s * _TIME / max(1, len(searches)))
    for chain, start in searches:
        found = await find_path(graph, scope.tenant, start, via=chain.via, now=now, bounds=bounds, scope=scope)
        if found.paths:
            return _evidence(found.paths, scope.tenant)
    return {}


async def _starts(graph: Queryable, seed: str, scope: Scope, labels: Sequence[str]) -> list[str]:
    named = (await TenantGraph(graph, scope.tenant).named([seed]))[seed]
    if not named:
        wanted = frozenset(words(seed))
        named = [str(entity_iri(label)) for label in labels if wanted.issubset(words(label))]
    return named[:_MOST_STARTS]


def _evidence(paths: Sequence[Path], tenant: str) -> dict[int, Evidence]:
    """Every memory by its best path: the last step of a path is the answer, the others lead there."""
    found: dict[int, Evidence] = {}
    cheapest = paths[0].cost
    for path in paths:
        said = tuple(step.text for step in path.steps)
        for before_last, step in enumerate(reversed(path.steps)):
            share = (1.0 + cheapest) / (1.0 + path.cost) / (1.0 + before_last / 10)
            for told in step.memories:
                key = memory_key(tenant, told.id)
                if key not in found or share > found[key].share:
                    found[key] = Evidence(share, said)
    return found
