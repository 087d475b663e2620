"""`orion-recall eval systems`: the systems of the analysis and a profile, by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.cli.main import run

DATA = Path(__file__).parents[1] / "data" / "times"
FILES = ["--memories", str(DATA / "memories.jsonl"), "--queries", str(DATA / "queries.jsonl")]
NAMES = ["like", "bm25_decay", "vector", "rrf"]


@pytest.mark.slow
def test_every_system_is_measured_on_the_same_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "systems", *FILES, "--profile", "reflect.v1", "--no-cache", "--json"]) == 0
    quality = {one["name"]: one for one in json.loads(capsys.readouterr().out)["quality"]}
    assert list(quality) == [*NAMES, "reflect.v1"]
    assert len({one["queries"] for one in quality.values()}) == 1
    assert quality["reflect.v1"]["means"]["recall@5"] > max(quality[name]["means"]["recall@5"] for name in NAMES)
    assert all(quality[name]["means"]["recall@5"] > 0 for name in NAMES)


@pytest.mark.parametrize("options", [["--sizes", "100"], ["--markdown"], ["--profile", "reflect.v1"] * 2])
def test_what_makes_no_sense_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "systems", *FILES, *options]) != 0
    assert "--" in capsys.readouterr().err
