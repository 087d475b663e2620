"""What a question asks for along the graph: the memories that are evidence for a path, or for one statement.

Possessive chains and relations between two names are paths; who somebody is, and what is told of a time, are
statements at one entity. The first of the question's walks that leads anywhere counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from orion_recall.graph.tenant_graph import TenantGraph, identities, stated_in
from orion_recall.graph.vocabulary import entity_iri, read_window, shown
from orion_recall.graph.walks.path import Path, PathBounds, find_path
from orion_recall.interfaces import GraphStore
from orion_recall.scoring.intervals import told_ranges, told_share
from orion_recall.text.normal import content_words, memory_key, words
from orion_recall.values import Chain, Question, Scope, SearchRequest, TimeRange

# Of a node sixteen edges that fit the word are looked at: few have more sisters, and each edge costs a recall time.
_BOUNDS = PathBounds(edges=16, scan=500, paths=2, memories=3)
_MOST_STARTS, _MOST_LABELS = 2, 4
_MOST_OF_TIME = 8
# What tells of the time weighs most, what told of it in advance less, what was only said then least.
_TOLD, _AHEAD, _SAID, _MENTIONED = 1.0, 0.8, 0.6, 0.7
_LEAST = 0.3


class Evidence(NamedTuple):
    """The share of a memory in a path, in (0, 1], highest for the last step; and the path in words."""

    share: float
    statements: tuple[str, ...]


async def along(graph: GraphStore, request: SearchRequest, *, labels: Sequence[str]) -> Mapping[int, Evidence]:
    """The evidence, by memory, of the first walk of the question that leads anywhere; empty when there is none.

    `labels` are entities that the question may name: where nobody is called as a walk's beginning is, it is one of
    them that has all of its words.
    """
    question, scope = request.question, request.scope
    chains = list(dict.fromkeys(one._replace(via=one.via[: request.path_hops]) for one in question.chains))
    if not chains:
        return {}
    view = TenantGraph(graph, scope.tenant)
    names = {name for one in chains for name in (one.seed, one.target) if name}
    named = await view.named(sorted(names)) if names else {}
    starts = {name: _starts(name, named[name], labels) for name in named}
    starts[""] = [str(entity_iri(label)) for label in labels[:_MOST_LABELS]]
    bounds = replace(
        _BOUNDS,
        max_hops=request.path_hops,
        max_expansions=request.path_expansions,
        deadline_s=request.timeout_s * request.path_time / max(1, sum(len(starts[one.seed]) for one in chains)),
    )
    for chain in chains:
        if found := await _evidence_of(graph, chain, starts, question, scope, bounds):
            return found
        if not chain.seed and starts[""]:  # what the question names is known: it is not about the one who asks
            break
    return {}


async def _evidence_of(
    graph: GraphStore,
    chain: Chain,
    starts: Mapping[str, Sequence[str]],
    question: Question,
    scope: Scope,
    bounds: PathBounds,
) -> Mapping[int, Evidence]:
    at = starts[chain.seed]
    if chain.asks == "who":
        evidence: dict[int, Evidence] = {}
        for fit, one in await identities(graph, at, scope):
            evidence.setdefault(one.memory, Evidence(fit / (1.0 + len(evidence) / 20), (one.text,)))
        return evidence
    if chain.asks == "temporal":
        return await _of_time(graph, at, question, scope) if at else {}
    is_related = chain.asks == "related"
    during = told_ranges(question.time, question.now) if is_related else ()
    for start, end in product(at, starts[chain.target or ""] if is_related else [None]):
        if start == end:
            continue
        found = await find_path(
            graph, scope.tenant, start, end, via=chain.via, now=question.now, bounds=bounds, scope=scope,
            during=during,
        )  # fmt: skip
        if found.paths:
            return _evidence(found.paths, scope.tenant)
    return {}


def _starts(name: str, called: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The entities (IRIs) that a name means: those called so, else those of the labels that have all its words."""
    found = list(called)
    if not found:
        wanted = frozenset(words(name))
        found = [str(entity_iri(label)) for label in labels if wanted.issubset(words(label))]
    return found[:_MOST_STARTS]


async def _of_time(graph: GraphStore, at: Sequence[str], question: Question, scope: Scope) -> dict[int, Evidence]:
    """What is told of the question's time, best first; of equal memories those that share more of its words."""
    time = question.time
    said: list[TimeRange] = [] if time.of == "told" else [(one.start, one.end) for one in time.intervals]
    told = told_ranges(time, question.now)
    best: dict[int, Evidence] = {}
    begin = min((since for since, _ in told if since is not None), default=-math.inf)
    for one in await stated_in(graph, at, scope, told=told, said=said):
        share, statements = _SAID, (one.text,) if one.text else ()
        if one.window is not None:
            # "Since March" overlaps this day, too, but tells little of it.
            was_ahead = one.said is not None and one.said < begin and not time.ahead
            share = told_share([read_window(one.window)], told) * (_AHEAD if was_ahead else _TOLD)
            statements = tuple(f"{text} ({shown([one.window])})" for text in statements)
        if one.text:
            shared = len(question.terms.intersection(content_words(one.text)))
            share *= 0.9 + 0.1 * shared / (1 + shared)
        else:
            share *= _MENTIONED
        if share >= _LEAST and (one.memory not in best or share > best[one.memory].share):
            best[one.memory] = Evidence(share, statements)
    ordered = sorted(best.items(), key=lambda one: (-one[1].share, str(one[0])))[:_MOST_OF_TIME]
    return {memory: one._replace(share=round(one.share, 6)) for memory, one in ordered}


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
