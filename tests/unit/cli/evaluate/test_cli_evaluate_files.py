from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.cli.evaluate.files import depths_of, plan_of, refuse_to_replace
from orion_recall.cli.evaluate.variants import measures_of
from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.baselines import BASELINES, Baseline
from orion_recall.evaluation.plan import Plan
from orion_recall.settings import Settings


def plan(folder: Path, **options: object) -> Plan:
    queries = folder / "queries.jsonl"
    lines = [
        {"query_id": "a", "conversation_id": "c", "query": "x", "evidence": ["m"]},
        {"query_id": "b", "conversation_id": "c", "query": "x"},
        {"query_id": "c", "conversation_id": "c", "query": "x", "evidence": ["m"], "scored": False},
    ]
    queries.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given: dict[str, object] = {"profile": None, "limit": None, "cache": None, "no_cache": True}
    return plan_of(Settings.read(), memories=folder / "m.jsonl", queries=queries, **given | options)  # pyright: ignore[reportArgumentType]


def test_the_default_profile_is_the_settings_own(tmp_path: Path):
    assert plan(tmp_path).profile.profile == "reflect.v1"
    assert plan(tmp_path, profile="deep.graph.v1").profile.profile == "deep.graph.v1"


def test_only_what_counts_is_asked_where_nothing_else_is_measured(tmp_path: Path):
    assert [query.id for query in plan(tmp_path).queries] == ["a", "b", "c"]
    assert [query.id for query in plan(tmp_path, scored_only=True).queries] == ["a"]


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_a_profile_of_its_own(tmp_path: Path, name: str):
    baseline = Baseline(name=name)  # pyright: ignore[reportArgumentType]
    assert plan(tmp_path, baseline=baseline).profile.profile == f"baseline.{name}"
    with pytest.raises(SettingsError, match="--baseline and --profile do not go together"):
        plan(tmp_path, baseline=baseline, profile="reflect.v1")


def test_what_cannot_be_is_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match="--cache and --no-cache"):
        plan(tmp_path, cache=tmp_path)
    with pytest.raises(SettingsError, match=r"'nobody\.v1' is no profile"):
        plan(tmp_path, profile="nobody.v1")
    with pytest.raises(EvaluationError, match="no judged query"):
        queries = tmp_path / "none.jsonl"
        queries.write_text('{"query_id": "a", "conversation_id": "c", "query": "x"}\n')
        plan_of(
            Settings.read(),
            memories=tmp_path,
            queries=queries,
            profile=None,
            limit=None,
            cache=None,
            no_cache=True,
            scored_only=True,
        )


def test_a_file_that_is_read_is_not_written_over(tmp_path: Path):
    read, same = tmp_path / "q.jsonl", tmp_path / "same.jsonl"
    read.write_text("{}")
    same.symlink_to(read)
    for out in (read, same):
        with pytest.raises(SettingsError, match="name another file"):
            refuse_to_replace(out, tmp_path / "m.jsonl", read)
    refuse_to_replace(tmp_path / "run.jsonl", read)
    refuse_to_replace(None, read)


@pytest.mark.parametrize("text", ["", "0", "5,x", "-1", "5,,10", "10001", "9" * 30])
def test_depths_are_numbers_from_1_to_10000(text: str):
    with pytest.raises(SettingsError, match="--k"):
        depths_of(text)


def test_each_depth_counts_once():
    assert depths_of("5,10,5") == (5, 10)


@pytest.mark.parametrize("by", ["recall", "recall@", "recall@0", "f1@5", "recall@bundle", "MRR"])
def test_a_measure_that_there_is_not_is_refused(by: str):
    with pytest.raises(SettingsError, match="is not measured"):
        measures_of(by, (5,))


def test_the_measure_that_decides_is_measured_too():
    assert measures_of("recall@3", (5, 10)) == (3, 5, 10)
    assert measures_of("map", (5, 10)) == (5, 10)
