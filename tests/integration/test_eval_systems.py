"""`orion-recall eval systems`: the systems of the analysis and a profile, by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.cli.main import run

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "times"
FILES = ["--memories", str(DATA / "memories.jsonl"), "--queries", str(DATA / "queries.jsonl")]
NAMES = ["like", "bm25_decay", "vector", "rrf"]


def test_every_system_is_measured_on_the_same_questions(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--profile", "reflect.v1", "--sizes", "60,100", "--calls", "10", "--no-cache", "--json"]
    assert run(["eval", "systems", *FILES, *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    quality = {one["name"]: one for one in printed["quality"]}
    assert list(quality) == [*NAMES, "reflect.v1"]
    assert len({one["queries"] for one in quality.values()}) == 1
    assert quality["reflect.v1"]["means"]["recall@5"] > max(quality[name]["means"]["recall@5"] for name in NAMES)
    assert all(quality[name]["means"]["recall@5"] > 0 for name in NAMES)
    assert [one["turns"] for one in printed["sizes"]] == [60, 100]
    for one in printed["sizes"]:
        assert list(one["searches"]) == NAMES
        latencies = [*one["searches"].values(), one["recalls"]["reflect.v1"], one["memory_operation"]]
        assert all(0 < each["p50"] <= each["p95"] <= each["p99"] for each in latencies)
        assert one["bytes_held"]["vector"] == 4 * 384 * one["turns"]
        assert list(one["bytes_held"]) == NAMES
    smaller, larger = printed["sizes"]
    assert all(smaller["bytes_held"][name] < larger["bytes_held"][name] for name in NAMES)


def test_the_tables_are_printed_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--sizes", "none", "--limit", "6", "--no-cache", "--markdown"]
    assert run(["eval", "systems", *FILES, *options]) == 0
    printed = capsys.readouterr().out
    assert "**Comparative analysis**" in printed
    assert "| BM25 with decay |" in printed
    assert "Scaling" not in printed


@pytest.mark.parametrize(
    "options",
    [["--sizes", "5"], ["--sizes", "many"], ["--json", "--markdown"], ["--profile", "reflect.v1"] * 2],
)
def test_what_makes_no_sense_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "systems", *FILES, *options]) != 0
    assert "--" in capsys.readouterr().err
