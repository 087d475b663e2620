"""`orion-recall graph` over a data folder, as a worker leaves it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from tests.stand_ins.graph import PEOPLE, Said, graph_in_folder

Answer = tuple[int, str, str]
Command = Callable[..., Answer]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    graph_in_folder(folder, PEOPLE, tenant="default")
    graph_in_folder(folder, [Said(id="s", text="s", statements=(("Eve", "knows", "Ana"),))], tenant="other")
    return folder


@pytest.fixture
def graph(data: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(name: str, *arguments: str) -> Answer:
        code = run(["graph", name, *arguments, "--data", str(data)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


def parsed(answer: Answer) -> Any:
    assert answer[0] == 0, answer
    return json.loads(answer[1])


def test_a_path_is_shown_with_its_evidence(graph: Command):
    code, out, err = graph("path", "Ana", "Fjord Labs")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("Ana → Ida → Fjord Labs")
    assert "[m5 2026-03-01] Ida still works at Fjord Labs." in out
    value = parsed(graph("path", "ana", "--via", "sister, employer", "--json"))
    assert value["paths"][0]["entities"] == ["Ana", "Ida", "Fjord Labs"]
    assert value["paths"][0]["steps"][1]["memories"][0]["id"] == "m5"


def test_where_there_is_no_path_that_is_said(graph: Command):
    code, _, err = graph("path", "Ana", "Software Engineering")
    alone = "no statement connects Software Engineering with anything"
    assert (code, err) == (1, f"error: there is no path of up to 4 hops: {alone}\n")
    code, out, _ = graph("path", "Ana", "Software Engineering", "--json")
    assert (code, json.loads(out)["ended"]) == (1, "exhausted")
    assert graph("path", "Ada", "Carl", "--max-hops", "2")[::2] == (1, "error: there is no path of up to 2 hops\n")


def test_an_unknown_name_is_told_its_neighbours(graph: Command):
    code, _, err = graph("path", "Fjord Lab", "Ana")
    assert code == 1
    assert err == "error: the graph of 'default' has no entity named 'Fjord Lab'; similar names: Fjord Labs\n"
    assert "named 'Eve'" in graph("path", "Eve", "Ana")[2]
    assert graph("path", "Eve", "Ana", "--tenant", "other")[0] == 0


def test_questions_are_answered_as_table_and_as_json(graph: Command):
    query = "MATCH (a:Person)-[r:WORKS_AT]->(b) RETURN a, r, b.name"
    _, out, _ = graph("query", query)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["a", "r", "b.name"]
    assert ["Ida", "Ida", "works", "at", "Fjord", "Labs", "Fjord", "Labs"] in lines
    value = parsed(graph("query", query, "--json"))
    assert value["columns"] == ["a", "r", "b.name"]
    assert {row["r"]["weight"] for row in value["rows"]} == {1, 2}
    assert graph("query", "MATCH (a {name: 'x'}) RETURN a") == (0, "", "nothing matches\n")
    assert parsed(graph("query", "MATCH (a)-[:KNOWS]->(b) RETURN a.name", "--tenant", "other", "--json"))[
        "rows"
    ] == [{"a.name": "Eve"}]


TEXTS = "SELECT ?text WHERE { ?edge <urn:orion:vocabulary:text> ?text } ORDER BY ?text"


def test_sparql_of_ones_own_sees_one_tenant(graph: Command):
    assert parsed(graph("sparql", TEXTS, "--tenant", "other", "--json")) == {
        "columns": ["text"], "rows": [["Eve knows Ana"]], "truncated": False,
    }  # fmt: skip
    assert graph("sparql", TEXTS, "--limit", "1")[1:] == (
        "text\nAda knows Ida\n", "limited to 1 row: --limit shows more\n",
    )  # fmt: skip
    every = "SELECT DISTINCT ?g WHERE { GRAPH ?g { ?s ?p ?o } } ORDER BY ?g"
    assert parsed(graph("sparql", every, "--json"))["rows"] == [["urn:orion:tenant:default"]]
    code, out, err = graph("sparql", "DROP ALL")
    assert (code, out, "an update" in err) == (2, "", True)


def test_a_picture_is_written_whole(graph: Command, tmp_path: Path):
    out = tmp_path / "graph.html"
    out.write_text("before")
    told = parsed(graph("viz", "Ana", "--out", str(out), "--hops", "1", "--json"))
    assert told == {"file": str(out), "entities": 3, "edges": 2, "cut": True}
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.html"]
    assert out.stat().st_mode & 0o777 == 0o600
    assert "8 entities and 8 edges" in graph("viz", "--out", str(out))[2]
    assert graph("viz", "Nobody", "--out", str(tmp_path / "no.html"))[0] == 1
    assert not (tmp_path / "no.html").exists()
    assert graph("viz", "--out", str(tmp_path / "nowhere" / "x.html"))[0] == 2


def test_csv_goes_into_a_folder(graph: Command, tmp_path: Path):
    assert parsed(graph("export", "--out", str(tmp_path / "csv"), "--json"))["tenants"] == ["default", "other"]
    assert sorted(file.name for file in (tmp_path / "csv").iterdir()) == ["edges.csv", "nodes.csv"]
    assert graph("export", "--tenant", "nobody", "--out", str(tmp_path / "x"))[0] == 1
