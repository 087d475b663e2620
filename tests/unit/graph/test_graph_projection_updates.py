"""Updates as an engine of this process carries them out."""

from __future__ import annotations

from dataclasses import replace

import pyoxigraph
import pytest

from orion_recall.graph.projection import Operation, updates
from orion_recall.graph.vocabulary import memory_triples, tenant_graph
from tests.samples.graph_samples import apply, changes, memory, positions

GRAPH = tenant_graph("acme")
GRAPH_NAME = str(GRAPH)


def test_changes_and_position_are_written_once_the_graph_is_where_it_should_be():
    store = pyoxigraph.Store()
    apply(store, changes(memory("a"), memory("b", tenant="other")), 0)
    assert positions(store) == ["2"]
    assert {graph.value for graph in store.named_graphs()} == {"urn:orion:tenant:acme", "urn:orion:tenant:other"}
    whole = set(store)
    apply(store, changes(memory("a"), memory("b", tenant="other")), 2)
    assert set(store) == whole


@pytest.mark.parametrize("held", [0, 1, 3])
def test_a_graph_that_is_elsewhere_is_left_as_it_is(held: int):
    store = pyoxigraph.Store()
    apply(store, changes(memory("a"), memory("b")), 0)
    whole = set(store)
    apply(store, changes(memory("c"), start=held + 1), held)
    assert set(store) == whole


def test_long_batches_are_cut_between_operations_and_claimed_last():
    long = [replace(memory(f"m{number}"), text=f"{number} " + "word " * 19_000) for number in range(12)]
    operations = [Operation(graph=GRAPH, added=list(memory_triples(one))) for one in long]
    requests = list(updates(operations, 0, 12))
    assert len(requests) > 2
    assert max(map(len, requests)) < 700_000
    store = pyoxigraph.Store()
    for request in requests[:-1]:
        store.update(request)
        assert positions(store) == ["0"]
    store.update(requests[-1])
    assert positions(store) == ["12"]
