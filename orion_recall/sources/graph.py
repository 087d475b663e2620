"""The `rdf` source: memories in the graph near the entities that a question names.

The entities are found by the keyword index; when that is away, by looking the question's own word runs up in the
graph. Their bounded neighbourhood gives memories, with the statements that led to them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rdflib import URIRef

from orion_recall.errors import ModelError, SourceError, TransientSourceError
from orion_recall.graph.tenant_graph import TenantGraph, neighbourhood_query, scope_conditions
from orion_recall.graph.vocabulary import entity_iri, key_of, memory_iri, reading_rows, tenant_graph
from orion_recall.graph.walks.spreading import Link, activation, pagerank, push
from orion_recall.interfaces import EntityFinder, EntityLikeness, GraphStore, MemoryIndex, OwnGraph
from orion_recall.models.embedder import Embedder
from orion_recall.sources.graph_paths import Evidence, along
from orion_recall.sources.hits import whole
from orion_recall.tasks import both
from orion_recall.text.normal import content_words, words
from orion_recall.values import Hit, Scope, SearchRequest, SourceName


class NamesByMeaning:
    """Compares one embedding of the text with the vectors of names in the index."""

    def __init__(self, index: MemoryIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def entities_like(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        """(label, cosine), best first. SourceError when index or model does not answer."""
        try:
            vector = await self._embedder.embed_query(text)
        except ModelError as error:
            raise SourceError(f"names cannot be compared by meaning: {error}") from error
        return await self._index.names_near(vector.tolist(), tenant, limit)


log = logging.getLogger("orion_recall.sources")

_LONGEST_NAME = 3
_LONGEST_KEPT = 300
_MOST_KEPT = 2_000
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


@dataclass(slots=True)
class _Reached:
    score: float = 0.0
    statements: dict[str, None] = field(default_factory=dict[str, None])


class RdfSource:
    """The `rdf` source. A hit's score is the sum over the graph paths that lead to the memory."""

    name: SourceName = "rdf"

    def __init__(
        self, graph: OwnGraph, entities: EntityFinder | None, likeness: EntityLikeness | None = None
    ) -> None:
        self._graph, self._entities, self._likeness = graph, entities, likeness
        # What is near the entities that were asked for last: the same few come up again and again.
        self._kept: dict[tuple[Scope, str, int, int], Sequence[_Near]] = {}
        self._writes: int | None = None

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Memories near the entities that the question names, best first.

        Before them those that a walk of the question leads to, such as a possessive chain's, with the whole path as
        their reasons.
        """
        seeds = [*await self._seeds(request)]
        seeds += [one for one in await self._similar(request) if one[0] not in {label for label, _ in seeds}]
        if not seeds and not request.question.chains:
            await self._graph.check()  # no query is sent, and a server that is away is not an empty one
            return whole([], self._graph)
        if request.question.chains:
            near, led = await both(self._near(request, seeds), self._led(request, seeds))
        else:
            near, led = await self._near(request, seeds), dict[int, Evidence]()
        if led:
            best = max((hit.score for hit in near), default=0.0)
            ahead = [
                Hit(key, round(best + one.share, 6), None, one.statements, one.share) for key, one in led.items()
            ]
            near = [*ahead, *(hit for hit in near if hit.key not in led)]
        near.sort(key=lambda hit: (-hit.score, str(hit.key)))
        return whole(near[: request.limit], self._graph)

    async def _similar(self, request: SearchRequest) -> Sequence[tuple[str, float]]:
        """Entities near to the question in meaning, with cosines as weights; none when the index is away."""
        if self._likeness is None or request.similar_entities <= 0:
            return []
        question, tenant = request.question, request.scope.tenant
        try:
            async with asyncio.timeout(request.timeout_s * _TIME_FOR_MEANING):
                found = await self._likeness.entities_like(question.dense_text, tenant, request.similar_entities)
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
        scope = request.scope
        if request.graph_method != "neighbourhood":
            return await self._spread(request, seeds)
        each = max(4, request.max_statements // len(seeds))
        around = await self._around([label for label, _ in seeds], scope, hops=request.hops, each=each)
        found = _gather(around, [weight for _, weight in seeds], request.question.terms)
        return [
            Hit(key=memory, score=round(way.score, 6), statements=tuple(way.statements)[:3])
            for memory, way in found.items()
        ]

    async def _around(
        self, labels: Sequence[str], scope: Scope, *, hops: int, each: int
    ) -> Sequence[Sequence[_Near]]:
        """What is near each entity, in their order; what is not known of them is read in one query."""
        await self._graph.check()
        writes = self._graph.writes
        if writes is None or writes != self._writes or len(self._kept) >= _MOST_KEPT:
            self._kept, self._writes = {}, writes
        kept, keys = self._kept, [(scope, label, hops, each) for label in labels]
        missing = [key for key in keys if key not in kept]
        if not missing:
            return [kept[key] for key in keys]
        read: dict[tuple[Scope, str, int, int], list[_Near]] = {key: [] for key in missing}
        entities = [entity_iri(label) for _, label, _, _ in missing]
        query = neighbourhood_query(tenant_graph(scope.tenant), entities, scope=scope, hops=hops, each=each)
        rows = await self._graph.select(query)
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
        links, said = await links_around(
            self._graph, list(weights), request.scope, hops=request.hops, max_statements=request.max_statements
        )
        scores = _scores(links, weights, request)
        memories = {link.target for link in links if link.kind in ("mentioned", "told")}
        return [
            Hit(key=key_of(one), score=round(scores[one], 6), statements=tuple(said.get(one, ()))[:3])
            for one in memories
            if scores.get(one, 0.0) > 0.0
        ]

    async def _seeds(self, request: SearchRequest) -> Sequence[tuple[str, float]]:
        """Entities named by the question with weights in (0, 1]."""
        text, tenant = request.question.text, request.scope.tenant
        if self._entities is not None:
            try:
                found = await self._entities.find_entities(text, tenant, request.max_entities)
            except SourceError as error:
                log.debug("the keyword index found no entities (%s): looking names up in the graph", error)
            else:
                best = found[0][1] if found else 1.0
                return [(label, score / best) for label, score in found if score >= best * 0.4]
        return await self._named_in_graph(text, tenant, request.max_entities)

    async def _named_in_graph(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
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


def _scores(links: Sequence[Link], seeds: Mapping[str, float], request: SearchRequest) -> Mapping[str, float]:
    damping, rounds = request.graph_damping, request.graph_rounds
    if request.graph_method == "activation":
        return activation(links, seeds, decay=damping, rounds=rounds)
    if request.graph_method == "pagerank":
        return pagerank(links, seeds, damping=damping, rounds=rounds)
    return push(links, seeds)


def _gather(
    around: Sequence[Sequence[_Near]], weights: Sequence[float], terms: frozenset[str]
) -> dict[int, _Reached]:
    """Memories with the sum of the ways that lead to them; a seed with many ways counts less for each."""
    found: dict[int, _Reached] = {}
    for rows, own in zip(around, weights, strict=True):
        worth = own / (1.0 + math.log2(1 + len(rows)) / 4)
        for memory, text, is_second_hop in rows:
            weight = worth * _SECOND_HOP if is_second_hop else worth
            if (way := found.get(memory)) is None:
                way = found[memory] = _Reached()
            if text is None:
                way.score += weight * _MENTION
            else:
                said = _words_of(text) if len(text) <= _LONGEST_KEPT else content_words(text)
                way.score += weight * (1 + _PER_SHARED_WORD * len(terms.intersection(said)))
                way.statements[text] = None
    return found


@lru_cache(maxsize=4096)
def _words_of(statement: str) -> frozenset[str]:
    """The words that a statement says something with: an entity has the same statements in every recall."""
    return frozenset(content_words(statement))


_MOST_OTHERS, _MOST_MEMORIES, _NAMES_OF_EACH = 16, 32, 8


async def links_around(
    store: GraphStore, seeds: Sequence[str], scope: Scope, *, hops: int, max_statements: int
) -> tuple[list[Link], Mapping[str, Sequence[str]]]:
    """Links between entities and memories (IRIs), and the statements of each memory.

    Edges and mentions of the seeds, of entities up to two hops away, and the names in the memories.

    Of an entity so many are read as its part of `max_statements` allows, whether it has fifty edges or fifty
    thousand. Only memories in scope are found, and only edges that one of them states.
    """
    graph, seen_by = TenantGraph(store, scope.tenant), scope_conditions(scope)
    links: dict[Link, None] = {}
    said: dict[str, dict[str, None]] = defaultdict(dict)
    seen = set(seeds)
    at: Sequence[str] = seeds

    def statements(one: str) -> str:
        entity, each = URIRef(one).n3(), max(4, max_statements // len(at))
        return (
            f"?memory ?text ?weight ?other WHERE {{ {{ SELECT ?memory ?text ?weight ?other WHERE {{ "
            f"?edge o:about {entity} ; o:text ?text ; o:weight ?weight ; prov:wasDerivedFrom ?memory {seen_by}"
            f" OPTIONAL {{ ?edge o:about ?other FILTER(?other != {entity}) }} }} LIMIT {each} }} UNION "
            f"{{ SELECT ?memory WHERE {{ ?memory o:mentions {entity} {seen_by}}} LIMIT {each} }} }}"
        )

    def names(memory: str) -> str:
        return f"?entity WHERE {{ {URIRef(memory).n3()} o:mentions ?entity }} LIMIT {_NAMES_OF_EACH}"

    with reading_rows():
        for _ in range(hops):
            others: dict[str, float] = {}
            for entity, row in await graph.each(at, statements):
                memory = row["memory"]
                if "text" not in row:
                    links[Link(entity, memory, "mentioned")] = None
                    continue
                links[Link(entity, memory, "told")] = None
                said[memory][row["text"]] = None
                if (other := row.get("other")) is not None:
                    weight = float(row["weight"])
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


class GraphEvidence:
    """Reads the weights of memories' statements, all of a recall in one query."""

    def __init__(self, graph: GraphStore) -> None:
        self._graph = graph

    async def weights(self, tenant: str, keys: Sequence[int]) -> Mapping[int, float]:
        """The sum of the weights of each memory's statements, by key. SourceError when the graph gives none."""
        if not keys:
            return {}
        values = " ".join(memory_iri(key).n3() for key in keys)
        rows = await TenantGraph(self._graph, tenant).rows(
            f"{{ SELECT ?memory (SUM(?weight) AS ?total) WHERE {{ VALUES ?memory {{ {values} }} "
            f"?edge prov:wasDerivedFrom ?memory ; o:weight ?weight }} GROUP BY ?memory }}"
        )
        with reading_rows():
            return {key_of(row["memory"]): float(row["total"]) for row in rows}
