"""What is exported, as other programs read it, and what becomes of it when it is read back."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyoxigraph
import pytest
from rdflib import Dataset

from orion_recall.contracts import MemoryV1
from orion_recall.errors import ImportFileError
from orion_recall.graph.exchange.csv_files import memory_lines, tenants, write_csv, write_rdf
from orion_recall.graph.vocabulary import Row
from orion_recall.memory.record.compose import compose
from orion_recall.values import Memory, Statement
from tests.samples.graph_samples import apply, changes, memory, select, told

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


async def exported(reading: Reading, folder: Path, form: Literal["turtle", "nquads", "jsonld"], name: str) -> Path:
    file = folder / name
    graphs = await tenants(reading.select)
    with file.open("wb") as out:
        await write_rdf(reading.select, graphs[:1] if form == "turtle" else graphs, form, out, lambda _: None)
    return file


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # by rdflib's own reader of JSON-LD
@pytest.mark.parametrize(("form", "name"), [("nquads", "g.nq"), ("jsonld", "g.jsonld")])
async def test_a_dataset_is_exported_whole_and_reads_back_the_same(
    tmp_path: Path, form: Literal["nquads", "jsonld"], name: str
):
    reading = Reading(*sample())
    file = await exported(reading, tmp_path, form, name)
    again = pyoxigraph.Store()
    again.load(path=str(file))
    assert told(again) == told(reading.store)
    dataset = Dataset()
    dataset.parse(str(file), format={"nquads": "nquads", "jsonld": "json-ld"}[form])
    assert sum(1 for _ in dataset.quads()) == len(told(reading.store)), "rdflib reads the same"


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


async def lines(path: Path) -> list[dict[str, Any]]:
    found = [line async for line in memory_lines(path)]
    for line in found:
        MemoryV1.model_validate(line)
    return found


@pytest.mark.parametrize(("form", "name"), [("nquads", "g.nq"), ("jsonld", "g.jsonld")])
async def test_memories_of_a_file_become_memories_again(
    tmp_path: Path, form: Literal["nquads", "jsonld"], name: str
):
    found = await lines(await exported(Reading(*sample()), tmp_path, form, name))
    by_id = {line["id"]: line for line in found}
    assert set(by_id) == {"m1", "m2", "m3"}, "statements whose evidence is there are no memories of their own"
    first = by_id["m1"]
    assert (first["text"], first["speaker"], first["session_id"]) == ("I work at Fjord Labs.", "Ana", "s")
    assert (first["uri"], first["title"], first["occurred_at"]) == ("x:1", "Work", "2026-01-02T00:00:00+00:00")
    assert (by_id["m2"]["text"], by_id["m3"]["tenant"]) == (HOSTILE, "other / 1")
    assert by_id["m3"]["source"] == f"graph import {name}"


async def test_edges_of_a_csv_file_become_memories_that_say_them(tmp_path: Path):
    await csv_of(Reading(*sample()), tmp_path)
    found = await lines(tmp_path)
    assert found == await lines(tmp_path / "edges.csv")
    by_text = {line["text"]: line for line in found}
    works = by_text["Ana works at Fjord Labs."]
    assert (works["entities"], works["kind"], works["tenant"]) == (["Ana", "Fjord Labs"], "world", "acme")
    assert works["id"].startswith("graph:")
    again = compose(MemoryV1.model_validate(works), "acme")
    assert WORKS in again.statements, "and the statement is found in it again"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("edges.csv", "a,b\n1,2\n", r":1: no column relation, source, target"),
        ("edges.csv", "source,relation,target\nAna,knows,Bo\nAna,,Bo\n", r":3: source, relation and target"),
        ("edges.csv", "source,relation,target,last_seen\nAna,knows,Bo,soon\n", r"'soon' is not a time"),
        ("g.nq", "<urn:a> <urn:b> .\n", r"g.nq: "),
        ("g.nq", "<urn:a> <urn:b> <urn:c> .\n", r"holds no memories or statements"),
        ("g.ttl", "<urn:a> a <urn:orion:vocabulary:Memory> .\n", r"has no urn:orion:vocabulary:id"),
        ("g.jsonld", '{"@context": "http://127.0.0.1:9/context", "a": 1}', r"g.jsonld: "),
        ("g.txt", "", r"its name should end in"),
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_an_error_that_says_where(tmp_path: Path, name: str, text: str, why: str):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ImportFileError, match=why):
        await lines(tmp_path / name)
