"""Updates as an engine of this process carries them out."""

from __future__ import annotations

import pyoxigraph
import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.graph.updates import POSITION_QUERY, updates
from orion_recall.memory.compose import compose
from orion_recall.values import Change, Memory


def memory(name: str, text: str = "It rained.", tenant: str = "acme") -> Memory:
    return compose(MemoryV1.model_validate({"id": name, "text": text, "tags": ['two\nlines\\"']}), tenant)


def changes(*memories: Memory, start: int = 1) -> list[Change]:
    return [Change(position=start + place, memory=one) for place, one in enumerate(memories)]


def carried_out(store: pyoxigraph.Store, steps: list[Change], held: int) -> None:
    for request in updates(steps, held):
        store.update(request)


def positions(store: pyoxigraph.Store) -> list[str]:
    found = store.query(POSITION_QUERY)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    return [row["position"].value for row in found]


def test_changes_and_position_are_written_once_the_graph_is_where_it_should_be():
    store = pyoxigraph.Store()
    carried_out(store, changes(memory("a"), memory("b", tenant="other")), 0)
    assert positions(store) == ["2"]
    assert {graph.value for graph in store.named_graphs()} == {"urn:orion:tenant:acme", "urn:orion:tenant:other"}
    whole = set(store)
    carried_out(store, changes(memory("a"), memory("b", tenant="other")), 2)
    assert set(store) == whole


@pytest.mark.parametrize("held", [0, 1, 3])
def test_a_graph_that_is_elsewhere_is_left_as_it_is(held: int):
    store = pyoxigraph.Store()
    carried_out(store, changes(memory("a"), memory("b")), 0)
    whole = set(store)
    carried_out(store, changes(memory("c"), start=held + 1), held)
    assert set(store) == whole


def test_a_graph_that_lost_its_position_takes_nothing_but_the_beginning():
    store = pyoxigraph.Store()
    carried_out(store, changes(memory("c"), start=8), 7)
    assert set(store) == set()
    carried_out(store, changes(memory("a")), 0)
    assert positions(store) == ["1"]


def test_long_batches_are_cut_between_memories_and_claimed_last():
    steps = changes(*(memory(f"m{number}", f"{number} " + "word " * 19_000) for number in range(12)))
    requests = list(updates(steps, 0))
    assert len(requests) > 2
    assert max(map(len, requests)) < 700_000
    store = pyoxigraph.Store()
    for request in requests[:-1]:
        store.update(request)
        assert positions(store) == ["0"]
    store.update(requests[-1])
    assert positions(store) == ["12"]
