from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyoxigraph as ox
import pytest
from rdflib.namespace import SKOS

from orion_recall.errors import SourceError
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.vocabulary import entity_iri, tenant_graph
from tests.stand_ins.graph import PEOPLE, TENANT, sample_graph


def iri(name: str) -> str:
    return str(entity_iri(name))


async def test_the_edges_of_several_nodes_are_read_in_one_question():
    graph = sample_graph(PEOPLE)
    found = await TenantGraph(graph, TENANT).edges([iri("Bo"), iri("Bergen"), iri("Nobody")], limit=10)
    assert {edge.text for edge in found[iri("Bo")]} == {"Bo knows Ana", "Carl knows Bo"}
    assert {edge.text for edge in found[iri("Bergen")]} == {"Fjord Labs based in Bergen", "Carl lives in Bergen"}
    assert found[iri("Nobody")] == []
    assert len(graph.queries) == 1


async def test_names_are_found_folded_and_by_merged_spellings():
    graph = sample_graph(PEOPLE)
    also = ox.Quad(
        ox.NamedNode(iri("Ida")),
        ox.NamedNode(str(SKOS.altLabel)),
        ox.Literal('I"da\\'),
        ox.NamedNode(str(tenant_graph(TENANT))),
    )
    graph.store.add(also)
    found = await TenantGraph(graph, TENANT).named(["fjord-LABS", 'I"da\\', "Nobody"])
    assert found == {"fjord-LABS": [iri("Fjord Labs")], 'I"da\\': [iri("Ida")], "Nobody": []}


async def test_rows_that_were_not_asked_for_are_the_graphs_fault():
    class Wrong:
        async def select(self, query: str) -> Sequence[Mapping[str, str]]:
            return [{"place": "0", "something": "else"}]

    with pytest.raises(SourceError, match="does not fit the query"):
        await TenantGraph(Wrong(), TENANT).edges(["urn:a"], limit=1)
