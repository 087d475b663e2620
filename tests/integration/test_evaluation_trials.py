"""Many ways to recall over one small judged collection: everything tried offline is what the recall itself does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from serving import NoProgress

from orion_recall.evaluation.baselines import Baselines
from orion_recall.evaluation.dataset import read_memories, read_queries
from orion_recall.evaluation.trials import Plan, Trials, trials
from orion_recall.evaluation.tune import NOT_LEARNED, PARTS, LearningOptions, grid_of, sweep, tune
from orion_recall.index.texts import dense_forms
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "times"


@pytest.fixture(scope="module")
async def tried() -> AsyncGenerator[Trials]:
    shipped = loaded_profiles(None)["reflect.v1"].profile
    plan = Plan(
        memories=DATA / "memories.jsonl",
        queries_file=DATA / "queries.jsonl",
        queries=read_queries(DATA / "queries.jsonl"),
        profile=shipped.model_copy(update={"enable_sql_timeline": False}),
    )
    async with trials(plan, Settings.read(), NoProgress()) as opened:
        yield opened


async def test_weights_are_learned_and_measured_where_they_were_not(tried: Trials) -> None:
    parts = tuple(name for name in PARTS if name != NOT_LEARNED)
    tuned = await tune(tried, LearningOptions(parts=parts), depths=(1,))
    assert len(tuned.folds) == 5
    assert max(tuned.weights.values()) == 1.0
    assert tuned.weights["time"] > 0  # only their time tells these memories apart
    assert all(
        weight >= 0 and weight * 20 == pytest.approx(round(weight * 20)) for weight in tuned.weights.values()
    )
    assert tuned.profile.ranking.model_dump() == tuned.weights
    recalls = {one.name: one.scores.means["recall@1"].mean for one in tuned.figures}
    assert list(recalls) == ["plain rrf", "reflect.v1", "learned, held out", "learned, all"]
    assert recalls["learned, held out"] > recalls["plain rrf"] + 0.2


async def test_recency_keeps_its_share_and_parts_that_are_left_out_weigh_nothing(tried: Trials) -> None:
    tuned = await tune(tried, LearningOptions(parts=("fusion", "time"), step=0.01), depths=(1,))
    assert {name for name, weight in tuned.weights.items() if weight} == {"fusion", "time", "recency"}
    given = tried.plan.profile.ranking.model_dump()
    share = given["recency"] / sum(given.values())
    assert tuned.weights["recency"] / sum(tuned.weights.values()) == pytest.approx(share, abs=0.01)


async def test_a_sweep_has_the_profile_first_and_then_the_best(tried: Trials) -> None:
    points = grid_of(["ranking.time=0,1.5", "bm25.b=0.25"])
    found = await sweep(tried.plan, points, Settings.read(), NoProgress(), by="recall@1", depths=(1,))
    assert [one.name for one in found] == [
        "reflect.v1",
        "ranking.time=1.5 bm25.b=0.25",
        "ranking.time=0 bm25.b=0.25",
    ]
    assert found[2].against["recall@1"].difference.high < 0


async def test_other_constants_of_keywords_are_other_scores(tried: Trials) -> None:
    """A sweep fills the index anew for them: the same words have other scores there."""
    question = tried.plan.queries[0]
    plain = await Baselines.of(tried.opened, tried.contents).ranked("bm25", question)
    plan = replace(tried.plan, keywords=KeywordWeights(k1=0.2, b=0.0))
    async with trials(plan, Settings.read(), NoProgress()) as opened:
        flat = await Baselines.of(opened.opened, opened.contents).ranked("bm25", question)
    assert {key for key, _ in flat} == {key for key, _ in plain}
    assert dict(flat) != dict(plain)


async def test_baselines_search_as_they_say(tried: Trials) -> None:
    """LIKE by its words, the vectors by the cosine of the index's own texts, and rank fusion by its formula."""
    question, index, embedder = tried.plan.queries[0], tried.opened.index, tried.opened.embedder
    assert index is not None
    baselines = Baselines.of(tried.opened, tried.contents)
    memories = {memory.id: memory for memory in read_memories(DATA / "memories.jsonl")}
    like = await baselines.line("like", question)
    held = [sum(word in memories[name].text.casefold() for word in ("dinner", "yesterday")) for name in like.ranked]
    assert held == sorted(held, reverse=True)
    assert held[0] > 0

    asked = await embedder.embed_query(question.text)
    said = await embedder.embed_documents([dense_forms(memory)[0] for memory in memories.values()])
    cosines = dict(zip(memories, (said @ asked).tolist(), strict=True))
    vector = await baselines.line("vector", question)
    assert list(vector.ranked) == sorted(memories, key=lambda name: -cosines[name])

    sums: dict[str, float] = {}
    for name in ("vector", "bm25"):
        for rank, found in enumerate((await baselines.line(name, question)).ranked, 1):
            sums[found] = sums.get(found, 0.0) + 1 / (60 + rank)
    fused = (await baselines.line("rrf", question)).ranked
    assert [sums[name] for name in fused] == pytest.approx(sorted(sums.values(), reverse=True))
