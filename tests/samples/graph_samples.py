"""A graph in this process, written by the steps that every graph is written by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyoxigraph

from orion_recall.contracts import MemoryV1
from orion_recall.graph.projection import METADATA_QUERY, Node, plan_changes, plan_removal, run_plan, updates
from orion_recall.memory.record.compose import compose
from orion_recall.values import Change, Memory

Rows = list[dict[str, str]]


def memory(name: str, text: str = "It rained.", tenant: str = "acme", **fields: Any) -> Memory:
    given = {"id": name, "text": text, "tags": ['two\nlines\\"']} | fields
    return compose(MemoryV1.model_validate(given), tenant)


def changes(*memories: Memory, start: int = 1) -> list[Change]:
    return [Change(position=start + place, memory=one) for place, one in enumerate(memories)]


def select(store: pyoxigraph.Store, query: str) -> Rows:
    found = store.query(query)
    assert isinstance(found, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return [
        {name: value.value for name, value in zip(names, row, strict=True) if value is not None} for row in found
    ]


def apply(store: pyoxigraph.Store, steps: Sequence[Change], held: int) -> None:
    operations = run_plan(plan_changes(steps), lambda query: select(store, query))
    for request in updates(operations, held, steps[-1].position):
        store.update(request)


def take_out(store: pyoxigraph.Store, nodes: Sequence[Node], held: int) -> None:
    operations = run_plan(plan_removal(nodes), lambda query: select(store, query))
    for request in updates(operations, held, held):
        store.update(request)


def positions(store: pyoxigraph.Store) -> list[str]:
    return [row["position"] for row in select(store, METADATA_QUERY) if "position" in row]


def told(store: pyoxigraph.Store) -> set[pyoxigraph.Quad]:
    """All that the graph says, but for its position."""
    return {quad for quad in store if quad.graph_name != pyoxigraph.DefaultGraph()}
