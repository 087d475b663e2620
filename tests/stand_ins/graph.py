"""A small graph in the published vocabulary, in an engine of this process: for traversal and queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyoxigraph as ox
from rdflib.namespace import PROV, RDF, SKOS

from orion_recall.graph.vocabulary import ORION, entity_iri, memory_iri, tenant_graph
from orion_recall.text import memory_key, words

TENANT = "acme"
NOW = 1_772_400_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One memory: who says what, which statements it makes, which entities it names besides."""

    id: str
    text: str
    speaker: str | None = None
    at: float | None = None
    kind: str = "world"
    statements: Sequence[tuple[str, str, str]] = ()
    mentions: Sequence[str] = ()
    next: str | None = None


@dataclass(slots=True)
class SampleGraph:
    """A store that answers as the service's graphs do, and counts its questions."""

    store: ox.Store = field(default_factory=ox.Store)
    queries: list[str] = field(default_factory=list[str])

    async def select(self, query: str) -> list[Mapping[str, str]]:
        """The rows of a SELECT, values as text; unbound ones are absent."""
        self.queries.append(query)
        found = self.store.query(query)
        assert isinstance(found, ox.QuerySolutions)
        names = [variable.value for variable in found.variables]
        return [
            {
                name: value.value
                for name, value in zip(names, row, strict=True)
                if value is not None and not isinstance(value, ox.Triple)
            }
            for row in found
        ]


def relation_iri(relation: str) -> str:
    return f"urn:orion:relation:{'_'.join(words(relation))}"


def edge_iri(subject: str, relation: str, obj: str) -> str:
    parts = "\x1f".join((str(entity_iri(subject)), relation_iri(relation), str(entity_iri(obj))))
    return f"urn:orion:edge:{hashlib.blake2b(parts.encode(), digest_size=12).hexdigest()}"


def sample_graph(memories: Iterable[Said], *, tenant: str = TENANT, into: ox.Store | None = None) -> SampleGraph:
    """The memories as the graph holds them: the one place of the tests that writes the vocabulary."""
    graph = SampleGraph(into if into is not None else ox.Store())
    graph.store.bulk_extend(
        ox.Quad(ox.NamedNode(subject), ox.NamedNode(predicate), value, ox.NamedNode(str(tenant_graph(tenant))))
        for subject, predicate, value in _triples(list(memories), tenant)
    )
    return graph


def graph_in_folder(folder: Path, memories: Iterable[Said], *, tenant: str = TENANT) -> None:
    """The same in a data folder, as a worker leaves it."""
    (folder / "graph").mkdir(parents=True, exist_ok=True)
    store = ox.Store(str(folder / "graph" / "store"))
    sample_graph(memories, tenant=tenant, into=store)
    store.flush()


def _triples(memories: Sequence[Said], tenant: str) -> Iterable[tuple[str, str, ox.NamedNode | ox.Literal]]:
    edges: dict[tuple[str, str, str], list[Said]] = {}
    for said in memories:
        iri = str(memory_iri(memory_key(tenant, said.id)))
        yield iri, str(RDF.type), ox.NamedNode(str(ORION.Memory))
        for name, value in (
            ("id", said.id),
            ("content", said.text),
            ("kind", said.kind),
            ("speaker", said.speaker),
        ):
            if value is not None:
                yield iri, str(ORION[name]), ox.Literal(value)
        if said.at is not None:
            yield iri, str(ORION.occurred), ox.Literal(said.at)
        if said.next is not None:
            yield iri, str(ORION.next), ox.NamedNode(str(memory_iri(memory_key(tenant, said.next))))
        if said.speaker is not None:
            yield iri, str(ORION.spokenBy), ox.NamedNode(str(entity_iri(said.speaker)))
        ends = [end for subject, _, obj in said.statements for end in (subject, obj)]
        for name in dict.fromkeys((*said.mentions, *ends, *((said.speaker,) if said.speaker else ()))):
            if name != said.speaker:
                yield iri, str(ORION.mentions), ox.NamedNode(str(entity_iri(name)))
            yield str(entity_iri(name)), str(RDF.type), ox.NamedNode(str(SKOS.Concept))
            yield str(entity_iri(name)), str(SKOS.prefLabel), ox.Literal(name)
        for statement in said.statements:
            edges.setdefault(statement, []).append(said)
    for (subject, relation, obj), evidence in edges.items():
        edge, kind = edge_iri(subject, relation, obj), relation_iri(relation)
        yield kind, str(RDF.type), ox.NamedNode(str(RDF.Property))
        yield kind, str(SKOS.prefLabel), ox.Literal(relation)
        yield edge, str(RDF.type), ox.NamedNode(str(RDF.Statement))
        yield edge, str(RDF.subject), ox.NamedNode(str(entity_iri(subject)))
        yield edge, str(RDF.predicate), ox.NamedNode(kind)
        yield edge, str(RDF.object), ox.NamedNode(str(entity_iri(obj)))
        for end in (subject, obj):
            yield edge, str(ORION.about), ox.NamedNode(str(entity_iri(end)))
        yield edge, str(ORION.text), ox.Literal(f"{subject} {relation} {obj}")
        yield edge, str(ORION.weight), ox.Literal(len(evidence))
        for said in evidence:
            yield edge, str(PROV.wasDerivedFrom), ox.NamedNode(str(memory_iri(memory_key(tenant, said.id))))
        times = [said.at for said in evidence if said.at is not None]
        if times:
            yield edge, str(ORION.firstSeen), ox.Literal(min(times))
            yield edge, str(ORION.lastSeen), ox.Literal(max(times))


DAY = 86_400.0
PEOPLE = (
    Said(id="m1", text="My sister Ida works at Fjord Labs.", speaker="Ana", at=NOW - DAY, next="m2",
         statements=(("Ida", "sister of", "Ana"), ("Ida", "works at", "Fjord Labs"))),
    Said(id="m2", text="Fjord Labs is based in Bergen.", speaker="Bo", at=NOW - 2 * DAY,
         statements=(("Fjord Labs", "based in", "Bergen"),)),
    Said(id="m3", text="Bo knows Ana.", speaker="Bo", statements=(("Bo", "knows", "Ana"),)),
    Said(id="m4", text="Carl knows Bo and lives in Bergen.", at=NOW - 400 * DAY, kind="observation",
         statements=(("Carl", "knows", "Bo"), ("Carl", "lives in", "Bergen"))),
    Said(id="m5", text="Ida still works at Fjord Labs.", speaker="Ana", at=NOW,
         statements=(("Ida", "works at", "Fjord Labs"),)),
    Said(id="m6", text="Ada, an engineer, knows Ida.", mentions=("Software Engineering",), kind="plan",
         statements=(("Ada", "knows", "Ida"), ("Ada", "works at", "Harbour Engineers"))),
)  # fmt: skip
