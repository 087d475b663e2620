"""The links around entities are bounded, however many edges a name has."""

from __future__ import annotations

import time

import pyoxigraph as ox
import pytest
from rdflib.namespace import PROV

from orion_recall.graph.vocabulary import ORION, entity_iri, memory_iri, tenant_graph
from orion_recall.sources.graph_links import links_around
from orion_recall.values import Scope
from tests.stand_ins.graph import SampleGraph

TENANT = "acme"
HUB = str(entity_iri("Hub"))


def hub(edges: int) -> SampleGraph:
    """A name with so many edges, each told by a memory of its own that names it too."""
    about, text, weight, told, mentions = (
        one.n3() for one in (ORION.about, ORION.text, ORION.weight, PROV.wasDerivedFrom, ORION.mentions)
    )
    name = entity_iri("Hub").n3()
    lines: list[str] = []
    for place in range(edges):
        edge, memory = f"<urn:orion:edge:{place}>", memory_iri(place).n3()
        lines += (
            f"{edge} {about} {name} .",
            f"{edge} {about} <urn:orion:entity:other_{place}> .",
            f'{edge} {text} "Hub knows other {place}" .',
            f'{edge} {weight} "1" .',
            f"{edge} {told} {memory} .",
            f"{memory} {mentions} {name} .",
        )
    made = SampleGraph()
    graph = ox.NamedNode(str(tenant_graph(TENANT)))
    made.store.bulk_load("\n".join(lines).encode(), ox.RdfFormat.N_TRIPLES, to_graph=graph)
    return made


@pytest.fixture(scope="module")
def big() -> SampleGraph:
    return hub(50_000)


async def test_a_hub_of_fifty_thousand_edges_costs_what_one_of_five_hundred_does(big: SampleGraph):
    small = hub(500)

    async def read(graph: SampleGraph) -> tuple[int, float, int]:
        began, asked = time.process_time(), len(graph.queries)
        around = await links_around(graph, [HUB], Scope(tenant=TENANT), hops=2, max_statements=120)
        return len(around.links), time.process_time() - began, len(graph.queries) - asked

    reads = [(await read(big), await read(small)) for _ in range(5)]
    for (links, _, queries), (few, _, _) in reads:
        assert links == few <= 3 * 2 * 120
        assert queries <= 3
    # The shortest of several: what else the machine does can only add to one. All edges would take a hundred times.
    took, quick = (min(pair[which][1] for pair in reads) for which in (0, 1))
    assert took < 5 * quick + 0.2


async def test_only_what_is_in_scope_is_linked(big: SampleGraph):
    scope = Scope(tenant=TENANT, session_id="s1")
    assert (await links_around(big, [HUB], scope, hops=2, max_statements=120)).links == []
    assert (await links_around(big, [HUB], Scope(tenant="other"), hops=2, max_statements=120)).links == []
    memory = ox.NamedNode(str(memory_iri(7)))
    graph = ox.NamedNode(str(tenant_graph(TENANT)))
    big.store.add(ox.Quad(memory, ox.NamedNode(str(ORION.session)), ox.Literal("s1"), graph))
    found = await links_around(big, [HUB], scope, hops=1, max_statements=120)
    assert {link.target for link in found.links if link.kind == "told"} == {str(memory_iri(7))}
    assert found.said == {str(memory_iri(7)): ("Hub knows other 7",)}
