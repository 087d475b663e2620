"""`orion-recall graph` on a graph's folder, while its owner has it open."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pyoxigraph
import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.memory.record.compose import compose
from orion_recall.values import Change


def change(position: int, name: str, text: str, tenant: str, **fields: object) -> Change:
    made = compose(MemoryV1.model_validate({"id": name, "text": text, **fields}), tenant)
    return Change(position=position, memory=made)


@pytest.fixture
async def data() -> AsyncIterator[Path]:
    """A data folder whose graph is open for writing."""
    folder = Path(tempfile.mkdtemp(prefix="orion-test-"))
    graph = RdfGraph(folder / "graph")
    await graph.open()
    await graph.apply([
        change(1, "m1", "I work at Fjord Labs.", "acme", speaker="Ana"),
        change(2, "m2", "Bo knows Ana.", "acme"),
        change(3, "m3", "Eve lives in Bergen.", "other"),
    ])  # fmt: skip
    yield folder
    await graph.close()
    shutil.rmtree(folder, ignore_errors=True)


# The program runs an event loop of its own: not inside that of a test.
def test_stats_tell_of_every_tenant(data: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["graph", "stats", "--data", str(data), "--json"]) == 0
    acme, other = json.loads(capsys.readouterr().out)["tenants"]
    assert (acme["tenant"], acme["memories"], acme["edges"], acme["components"]) == ("acme", 2, 2, 1)
    assert acme["hubs"][0] == {"entity": "Ana", "edges": 2}
    assert (other["tenant"], other["edges"]) == ("other", 1)
    assert run(["graph", "stats", "--data", str(data), "--tenant", "acme"]) == 0
    shown = capsys.readouterr().out
    assert "most edges in acme: Ana (2)" in shown
    assert "other" not in shown


@pytest.mark.parametrize("form", ["nquads", "jsonld"])
def test_what_is_exported_can_be_imported(data: Path, form: str, capsys: pytest.CaptureFixture[str]):
    out, lines = data / {"nquads": "g.nq", "jsonld": "g.jsonld"}[form], data / "lines.jsonl"
    assert run(["graph", "export", "--data", str(data), "--format", form, "--out", str(out)]) == 0
    assert run(["graph", "import", str(out), "--out", str(lines)]) == 0
    assert "3 memories; store them in another record with `orion-recall import" in capsys.readouterr().out
    found = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert [(one["id"], one["tenant"]) for one in sorted(found, key=lambda one: one["id"])] == [
        ("m1", "acme"), ("m2", "acme"), ("m3", "other"),
    ]  # fmt: skip
    assert not list(data.glob("*.part"))


def test_csv_goes_into_a_folder(data: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["graph", "export", "--data", str(data), "--format", "csv", "--out", str(data / "csv"), "--json"]
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["tenants"] == ["acme", "other"]
    assert sorted(file.name for file in (data / "csv").iterdir()) == ["edges.csv", "nodes.csv"]
    assert run(["graph", "import", str(data / "csv"), "--out", str(data / "l.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memories"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("export --data {data} --out {data}/g.ttl", 2, "Turtle holds one graph, and there are 2: acme, other"),
        ("export --data {data} --out {data}/graph", 2, "already exists"),
        ("stats --data {data} --tenant nobody", 1, "no memories of a tenant 'nobody'"),
        ("stats --data {data}/none", 1, "there is no graph in"),
        ("import {data}/none.csv --out {data}/l.jsonl", 2, "No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    data: Path, arguments: str, code: int, told: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["graph", *arguments.format(data=data).split()]) == code
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not list(data.glob("*.part")), "nothing half-written stays"
    assert not (data / "l.jsonl").exists()


def test_a_graph_of_another_format_is_left_to_a_worker(data: Path, capsys: pytest.CaptureFixture[str]):
    (data / "old" / "graph").mkdir(parents=True)
    old = pyoxigraph.Store(str(data / "old" / "graph" / "store"))
    old.update("INSERT DATA { <urn:orion:projection> <urn:orion:vocabulary:position> 4 }")
    del old
    assert run(["graph", "stats", "--data", str(data / "old")]) == 1
    assert "is not built yet" in capsys.readouterr().err
