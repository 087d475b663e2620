"""The golden set of topics: 50 turns of two neighbours, ten questions with five relevant turns and more each.

The targets are those of the retrieval analysis: precision@5 above .70, recall@5 above .50, MRR above .60, and all
three above plain LIKE.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from serving import NoProgress

from orion_recall.evaluation.baselines import BaselineName
from orion_recall.evaluation.dataset import read_memories, read_queries, read_run
from orion_recall.evaluation.measures import measure
from orion_recall.evaluation.trials import Plan, run
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "golden_topics"
TARGETS = {"precision@5": 0.70, "recall@5": 0.50, "mrr": 0.60}


async def figures(
    out: Path, *, profile: str = "reflect.v1", baseline: BaselineName | None = None
) -> Mapping[str, float]:
    queries = read_queries(DATA / "queries.jsonl")
    plan = Plan(
        memories=DATA / "memories.jsonl",
        queries_file=DATA / "queries.jsonl",
        queries=queries,
        profile=loaded_profiles(None)[profile].profile,
    )
    await run(plan, out, Settings.read(postgres_dsn=None), NoProgress(), baseline=baseline)
    measured = measure(read_run(out), queries, (5,))
    return dict(zip(measured.measures, measured.values.mean(axis=0).tolist(), strict=True))


def test_the_set_is_as_large_as_the_analysis_asks_for() -> None:
    ids = {memory.id for memory in read_memories(DATA / "memories.jsonl")}
    queries = read_queries(DATA / "queries.jsonl")
    assert (len(ids), len(queries)) == (50, 10)
    for query in queries:
        assert len(query.evidence) >= 5, query.text
        assert query.evidence <= ids


@pytest.mark.parametrize("profile", ["reflect.v1", "deep.graph.v1"])
async def test_a_shipped_profile_reaches_the_targets(tmp_path: Path, profile: str) -> None:
    found = await figures(tmp_path / "run.jsonl", profile=profile)
    assert {name: found[name] for name, least in TARGETS.items() if found[name] <= least} == {}


async def test_plain_like_does_not(tmp_path: Path) -> None:
    found = await figures(tmp_path / "run.jsonl", baseline="like")
    assert found["precision@5"] < 0.5
    assert found["recall@5"] < 0.4
