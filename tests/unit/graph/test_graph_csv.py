"""The graph as CSV files, as other programs read them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyoxigraph

from orion_recall.graph.exchange.csv_files import Components, tenants, write_csv
from orion_recall.graph.vocabulary import Row
from orion_recall.values import Memory, Statement
from tests.samples.graph_samples import apply, changes, memory, select

HOSTILE = 'a "b", c\n=1+1;<x> {y} \\'
WORKS = Statement(subject="Ana", relation="works at", object="Fjord Labs")
KNOWS = Statement(subject="Ana", relation="knows", object=HOSTILE)


def sample() -> list[Memory]:
    first = memory("m1", "I work at Fjord Labs.", speaker="Ana", session_id="s", occurred_at="2026-01-02T00:00:00Z",
                   uri="x:1", title="Work")  # fmt: skip
    return [
        replace(first, statements=(WORKS, KNOWS)),
        replace(memory("m2", HOSTILE), statements=(WORKS,)),
        memory("m3", "Eve is here.", tenant="other / 1", entities=["Eve"]),
    ]


class Reading:
    """A graph in this process, asked as readers ask."""

    def __init__(self, *memories: Memory) -> None:
        self.store = pyoxigraph.Store()
        apply(self.store, changes(*memories), 0)

    async def select(self, query: str) -> Sequence[Row]:
        return select(self.store, query)


async def csv_of(reading: Reading, folder: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    await write_csv(reading.select, await tenants(reading.select), folder, lambda _: None)
    files: list[list[dict[str, str]]] = []
    for name in ("nodes.csv", "edges.csv"):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            files.append(list(csv.DictReader(file)))
    return files[0], files[1]


async def test_csv_has_entities_and_edges_with_their_evidence(tmp_path: Path):
    nodes, edges = await csv_of(Reading(*sample()), tmp_path)
    assert {(row["label"], row["edges"], row["tenant"]) for row in nodes} >= {
        ("Ana", "2", "acme"), ("Fjord Labs", "1", "acme"), (HOSTILE, "1", "acme"), ("Eve", "0", "other / 1"),
    }  # fmt: skip
    by_relation = {row["relation"]: row for row in edges}
    works = by_relation["works at"]
    assert (works["source"], works["target"], works["weight"]) == ("Ana", "Fjord Labs", "2")
    assert json.loads(works["memories"]) == ["m1", "m2"]
    assert float(works["first_seen"]) == float(works["last_seen"]) == 1_767_312_000.0
    assert {works["source_id"], works["target_id"]} <= {row["id"] for row in nodes}
    assert by_relation["knows"]["target"] == HOSTILE


def test_components_are_kept_current_as_edges_come():
    made = Components()
    made.add([("b", "a"), ("c", "d"), ("e", "e")])
    assert [made.component(one) for one in "abcdef"] == list("aaccef")
    made.add([("b", "d")])
    assert [made.component(one) for one in "abcdef"] == list("aaaaef")
    assert made.degrees["b"] == 2
