"""The `rdf` source: memories in the graph near the entities that a question names, or along its walks.

The entities are found by the keyword index; when that is away, by the question's own word runs in the graph.
Evidence for a walk of the question comes first: possessive chains and relations between two names are paths; who
somebody is, and what is told of a time, are statements at one entity.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rdflib import URIRef

from orion_recall.errors import ModelError, SourceError, TransientSourceError
from orion_recall.graph.tenant_graph import TenantGraph, identities, neighbourhood, scope_conditions, stated_in
from orion_recall.graph.vocabulary import entity_iri, finite, key_of, memory_iri, read_window, reading_rows, shown
from orion_recall.graph.walks import Link, Path, PathBounds, activation, find_path, pagerank, push
from orion_recall.interfaces import EntityFinder, GraphStore, MemoryIndex, OwnGraph
from orion_recall.models.embedder import Embedder
from orion_recall.scoring.intervals import told_ranges, told_share
from orion_recall.sources.hits import whole
from orion_recall.tasks import both
from orion_recall.text.normal import content_words, memory_key, words
from orion_recall.values import Chain, Hit, Question, Scope, SearchRequest, SourceName, TimeRange

EntitiesLike = Callable[[str, str, int], Awaitable[Sequence[tuple[str, float]]]]
"""`entities_like` of one index and embedder."""


async def entities_like(
    index: MemoryIndex, embedder: Embedder, text: str, tenant: str, limit: int
) -> Sequence[tuple[str, float]]:
    """Entities with names similar in meaning to the text, by one embedding of it: (label, cosine), best first.

    SourceError when index or model does not answer.
    """
    try:
        vector = await embedder.embed_query(text)
    except ModelError as error:
        raise SourceError(f"names cannot be compared by meaning: {error}") from error
    return await index.names_near(vector.tolist(), tenant, limit)


log = logging.getLogger("orion_recall.sources")

_LONGEST_NAME, _LONGEST_KEPT, _MOST_KEPT = 3, 300, 2_000
# Names with a lower cosine mean something else: of a handful of names some are always the nearest.
_LEAST_COSINE = 0.4
# The share of the source's time: an embedder that hangs must not cost the hits that the graph finds without it.
_TIME_FOR_MEANING = 0.4
_SECOND_HOP, _MENTION, _PER_SHARED_WORD = 0.4, 0.4, 0.5


class _Near(NamedTuple):
    """A memory beside an entity: the statement that it is evidence of, None where it only mentions the entity."""

    memory: int
    statement: str | None
    is_second_hop: bool


class RdfSource:
    """The `rdf` source. A hit's score is the sum over the graph paths that lead to the memory."""

    name: SourceName = "rdf"

    def __init__(
        self, graph: OwnGraph, entities: EntityFinder | None, likeness: EntitiesLike | None = None
    ) -> None:
        self._graph, self._entities, self._likeness = graph, entities, likeness
        # What is near the entities that were asked for last: the same few come up again and again.
        self._kept: dict[tuple[Scope, str, int, int], Sequence[_Near]] = {}
        self._writes: int | None = None

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Memories near the entities that the question names, best first; before them what a walk leads to."""
        seeds = [*await self._seeds(request)]
        seeds += [one for one in await self._similar(request) if one[0] not in {label for label, _ in seeds}]
        if request.question.chains:
            near, led = await both(self._near(request, seeds), self._led(request, seeds))
            best = max((hit.score for hit in near), default=0.0)
            near = [hit for hit in near if hit.key not in led]
            near += [
                Hit(key, round(best + one.share, 6), None, one.statements, one.share) for key, one in led.items()
            ]
        elif seeds:
            near = await self._near(request, seeds)
        else:
            await self._graph.check()  # no query is sent, and a server that is away is not an empty one
            return whole([], self._graph)
        near.sort(key=lambda hit: (-hit.score, str(hit.key)))
        return whole(near[: request.limit], self._graph)

    async def _similar(self, request: SearchRequest) -> Sequence[tuple[str, float]]:
        """Entities near to the question in meaning, with cosines as weights; none when the index is away."""
        if self._likeness is None or request.similar_entities <= 0:
            return []
        question, tenant = request.question, request.scope.tenant
        try:
            async with asyncio.timeout(request.timeout_s * _TIME_FOR_MEANING):
                found = await self._likeness(question.dense_text, tenant, request.similar_entities)
        except (SourceError, TimeoutError) as error:
            log.debug("no names are compared by meaning: %s", error or "no answer in time")
            return []
        return [(label, cosine) for label, cosine in found if cosine >= _LEAST_COSINE]

    async def _led(self, request: SearchRequest, seeds: Sequence[tuple[str, float]]) -> Mapping[int, Evidence]:
        try:
            return await along(self._graph, request, labels=[label for label, _ in seeds])
        except TransientSourceError as error:
            if not seeds:
                raise
            # Without a path there still is what is near.
            log.debug("the graph gave no path: %s", error)
            return {}

    async def _near(self, request: SearchRequest, seeds: Sequence[tuple[str, float]]) -> list[Hit]:
        if not seeds:
            return []
        if request.graph_method != "neighbourhood":
            return await self._spread(request, seeds)
        each = max(4, request.max_statements // len(seeds))
        around = await self._around([label for label, _ in seeds], request, each)
        found = _gather(around, [weight for _, weight in seeds], request.question.terms)
        return [
            Hit(key=memory, score=round(score, 6), statements=tuple(statements)[:3])
            for memory, (score, statements) in found.items()
        ]

    async def _around(self, labels: Sequence[str], request: SearchRequest, each: int) -> Sequence[Sequence[_Near]]:
        """What is near each entity, in their order; what is not known of them is read in one query."""
        await self._graph.check()
        scope, hops, writes = request.scope, request.hops, self._graph.writes
        if writes is None or writes != self._writes or len(self._kept) >= _MOST_KEPT:
            self._kept, self._writes = {}, writes
        kept, keys = self._kept, [(scope, label, hops, each) for label in labels]
        missing = [key for key in keys if key not in kept]
        if not missing:
            return [kept[key] for key in keys]
        read: dict[tuple[Scope, str, int, int], list[_Near]] = {key: [] for key in missing}
        entities = [entity_iri(label) for _, label, _, _ in missing]
        pattern = neighbourhood(entities, scope=scope, hops=hops, each=each)
        rows = await TenantGraph(self._graph, scope.tenant).rows(pattern)
        with reading_rows():
            for row in rows:
                read[missing[int(row["seed"])]].append(
                    _Near(key_of(row["memory"]), row.get("text"), row["hop"] == "2")
                )
        around = [read[key] if key in read else kept[key] for key in keys]
        if writes is not None and self._graph.writes == writes:
            kept |= read
        return around

    async def _spread(self, request: SearchRequest, seeds: Sequence[tuple[str, float]]) -> list[Hit]:
        weights = {str(entity_iri(label)): weight for label, weight in reversed(seeds)}
        links, said = await links_around(self._graph, list(weights), request)
        damping, rounds = request.graph_damping, request.graph_rounds
        if request.graph_method == "activation":
            scores = activation(links, weights, decay=damping, rounds=rounds)
        elif request.graph_method == "pagerank":
            scores = pagerank(links, weights, damping=damping, rounds=rounds)
        else:
            scores = push(links, weights)
        memories = {link.target for link in links if link.kind in ("mentioned", "told")}
        return [
            Hit(key=key_of(one), score=round(scores[one], 6), statements=tuple(said.get(one, ()))[:3])
            for one in memories
            if scores.get(one, 0.0) > 0.0
        ]

    async def _seeds(self, request: SearchRequest) -> Sequence[tuple[str, float]]:
        """Entities named by the question with weights in (0, 1]."""
        text, tenant, limit = request.question.text, request.scope.tenant, request.max_entities
        if self._entities is not None:
            try:
                found = await self._entities.find_entities(text, tenant, limit)
            except SourceError as error:
                log.debug("the keyword index found no entities (%s): looking names up in the graph", error)
            else:
                best = found[0][1] if found else 1.0
                return [(label, score / best) for label, score in found if score >= best * 0.4]
        folded = words(text)[:64]
        runs = {
            " ".join(folded[start : start + length])
            for length in range(1, _LONGEST_NAME + 1)
            for start in range(len(folded) - length + 1)
        }
        runs = {run for run in runs if content_words(run)}
        if not runs:
            return []
        values = " ".join(entity_iri(run).n3() for run in sorted(runs))
        rows = await TenantGraph(self._graph, tenant).rows(
            f"SELECT DISTINCT ?label WHERE {{ VALUES ?entity {{ {values} }} ?entity skos:prefLabel ?label }} "
            f"LIMIT {4 * limit}"
        )
        labels = sorted({row["label"] for row in rows}, key=lambda label: (-len(label), label))
        return [(label, 1.0) for label in labels[:limit]]


def _gather(
    around: Sequence[Sequence[_Near]], weights: Sequence[float], terms: frozenset[str]
) -> dict[int, tuple[float, dict[str, None]]]:
    """Memories with the sum of the ways that lead to them; a seed with many ways counts less for each."""
    found: dict[int, tuple[float, dict[str, None]]] = {}
    for rows, own in zip(around, weights, strict=True):
        worth = own / (1.0 + math.log2(1 + len(rows)) / 4)
        for memory, text, is_second_hop in rows:
            weight = worth * _SECOND_HOP if is_second_hop else worth
            score, statements = found.get(memory) or (0.0, {})
            if text is None:
                score += weight * _MENTION
            else:
                said = _words_of(text) if len(text) <= _LONGEST_KEPT else content_words(text)
                score += weight * (1 + _PER_SHARED_WORD * len(terms.intersection(said)))
                statements[text] = None
            found[memory] = score, statements
    return found


@lru_cache(maxsize=4096)
def _words_of(statement: str) -> frozenset[str]:
    """The words that a statement says something with: an entity has the same statements in every recall."""
    return frozenset(content_words(statement))


_MOST_OTHERS, _MOST_MEMORIES, _NAMES_OF_EACH = 16, 32, 8


async def links_around(
    store: GraphStore, seeds: Sequence[str], request: SearchRequest
) -> tuple[list[Link], Mapping[str, Sequence[str]]]:
    """Links between entities and memories (IRIs), and the statements of each memory.

    Edges and mentions of the seeds, of entities up to two hops away, and the names in the memories. Of an entity so
    many are read as its part of `max_statements` allows; only memories in scope, and edges that one of them states.
    """
    graph, seen_by = TenantGraph(store, request.scope.tenant), scope_conditions(request.scope)
    links: dict[Link, None] = {}
    said: dict[str, dict[str, None]] = defaultdict(dict)
    seen = set(seeds)
    at: Sequence[str] = seeds

    def statements(one: str) -> str:
        entity, each = URIRef(one).n3(), max(4, request.max_statements // len(at))
        return (
            f"?memory ?text ?weight ?other WHERE {{ {{ SELECT ?memory ?text ?weight ?other WHERE {{ "
            f"?edge o:about {entity} ; o:text ?text ; o:weight ?weight ; prov:wasDerivedFrom ?memory {seen_by}"
            f" OPTIONAL {{ ?edge o:about ?other FILTER(?other != {entity}) }} }} LIMIT {each} }} UNION "
            f"{{ SELECT ?memory WHERE {{ ?memory o:mentions {entity} {seen_by}}} LIMIT {each} }} }}"
        )

    def names(memory: str) -> str:
        return f"?entity WHERE {{ {URIRef(memory).n3()} o:mentions ?entity }} LIMIT {_NAMES_OF_EACH}"

    with reading_rows():
        for _ in range(request.hops):
            others: dict[str, float] = {}
            for entity, row in await graph.each(at, statements):
                memory = row["memory"]
                if "text" not in row:
                    links[Link(entity, memory, "mentioned")] = None
                    continue
                links[Link(entity, memory, "told")] = None
                said[memory][row["text"]] = None
                if (other := row.get("other")) is not None:
                    weight = finite(row["weight"])
                    links[Link(entity, other, "edge", weight)] = None
                    others[other] = max(weight, others.get(other, 0.0))
            best = sorted((-weight, other) for other, weight in others.items() if other not in seen)
            at = [other for _, other in best[:_MOST_OTHERS]]
            seen.update(at)
        memories = list(dict.fromkeys(link.target for link in links if link.kind != "edge"))[:_MOST_MEMORIES]
        for memory, row in await graph.each(memories, names):
            links[Link(memory, row["entity"], "mentions")] = None
            links[Link(row["entity"], memory, "mentioned")] = None
    return list(links), {memory: tuple(texts) for memory, texts in said.items()}


async def statement_weights(graph: GraphStore, tenant: str, keys: Sequence[int]) -> Mapping[int, float]:
    """The sum of the weights of each memory's statements, by key, in one query. SourceError when the graph gives
    none."""
    if not keys:
        return {}
    values = " ".join(memory_iri(key).n3() for key in keys)
    rows = await TenantGraph(graph, tenant).rows(
        f"{{ SELECT ?memory (SUM(?weight) AS ?total) WHERE {{ VALUES ?memory {{ {values} }} "
        f"?edge prov:wasDerivedFrom ?memory ; o:weight ?weight }} GROUP BY ?memory }}"
    )
    with reading_rows():
        return {key_of(row["memory"]): finite(row["total"]) for row in rows}


# Of a node sixteen edges that fit the word are looked at: few have more sisters, and each edge costs a recall time.
_BOUNDS = PathBounds(edges=16, scan=500, paths=2, memories=3)
_MOST_STARTS, _MOST_LABELS, _MOST_OF_TIME = 2, 4, 8
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
    shortened = (one._replace(via=one.via[: request.path_hops]) for one in request.question.chains)
    chains = list(dict.fromkeys(shortened))
    if not chains:
        return {}
    view = TenantGraph(graph, request.scope.tenant)
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
        if found := await _evidence_of(graph, chain, starts, request, bounds):
            return found
        if not chain.seed and starts[""]:  # what the question names is known: it is not about the one who asks
            break
    return {}


async def _evidence_of(
    graph: GraphStore, chain: Chain, starts: Mapping[str, Sequence[str]], request: SearchRequest, bounds: PathBounds
) -> Mapping[int, Evidence]:
    question, scope, at = request.question, request.scope, starts[chain.seed]
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
