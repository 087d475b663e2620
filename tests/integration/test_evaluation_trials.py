"""Many ways to recall over one small judged collection: everything tried offline is what the recall itself does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from orion_recall.evaluation.figures import figures_of
from orion_recall.evaluation.tuning.features import PARTS
from orion_recall.evaluation.tuning.keyword_index import KeywordIndex
from orion_recall.evaluation.tuning.sweep import Reweighed, ablate, sweep
from orion_recall.evaluation.tuning.tune import NOT_LEARNED, LearningOptions, tune
from orion_recall.evaluation.tuning.variants import at, grid_of
from orion_recall.evaluation.worst_queries import worst

from orion_recall.evaluation.baselines import BASELINES, Baseline
from orion_recall.evaluation.dataset import JudgedQuery, read_memories, read_queries
from orion_recall.evaluation.fill import changes
from orion_recall.evaluation.measures import judged
from orion_recall.evaluation.plan import Plan
from orion_recall.evaluation.trials import Asking, Run, Trials, line_of, trials
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.profile.watch import loaded_profiles
from orion_recall.settings import Settings
from orion_recall.text.keyword_weights import KeywordWeights
from orion_recall.values import Scope

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "times"


class Silent:
    def begins(self, what: str, total: int) -> None: ...

    def advanced(self, done: int) -> None: ...


def _with(tried: Trials, **changes: Any) -> Plan:
    return replace(tried.plan, **changes)


@pytest.fixture(scope="module")
async def tried() -> AsyncGenerator[Trials]:
    shipped = loaded_profiles(None)["reflect.v1"].profile
    plan = Plan(
        memories=DATA / "memories.jsonl",
        queries_file=DATA / "queries.jsonl",
        queries=read_queries(DATA / "queries.jsonl"),
        profile=shipped.model_copy(update={"enable_sql_timeline": False}),
        cache=None,
    )
    async with trials(plan, Settings.read(), Silent()) as opened:
        yield opened


async def test_a_trial_is_what_the_recall_itself_gives(tried: Trials) -> None:
    profile = tried.plan.profile
    asking = Asking(sources=tried.opened.sources, newest=tried.contents.newest)
    direct = {one.id: line_of(await asking.recalled(one, profile)) for one in tried.plan.queries}
    assert await tried.run(profile, what="once") == direct
    assert await tried.run(profile, what="again, of what was kept") == direct


@pytest.mark.parametrize(
    "point", ["ranking.time=0.25", "ranking.session=0", "ranking.late=0", "ranking.late=3", "ranking.length=2"]
)
async def test_what_is_worked_out_ranks_as_the_recall_does_under_other_weights(tried: Trials, point: str) -> None:
    other = at(tried.plan.profile, grid_of([point])[0])
    worked_out = await Reweighed(tried).run(other, what="worked out")
    real = await tried.run(other, what="real")
    assert {name: line.ranked for name, line in worked_out.items()} == {
        name: line.ranked for name, line in real.items()
    }


async def test_what_is_off_brings_no_candidates_into_what_is_worked_out(tried: Trials) -> None:
    # With so few candidates a second search finds others, where it is on.
    narrow = at(tried.plan.profile, grid_of(["rank_pool=10"])[0])
    few = Trials(_with(tried, profile=narrow), tried.opened, tried.contents, Silent())
    own = Reweighed(few)
    for point in ("ranking.time=0.5", "ranking.second_step=0.5", "ranking.links=0.5"):
        other = at(narrow, grid_of([point])[0])
        real = await few.run(other, what="real")
        worked_out = await own.run(other, what="worked out")
        assert {name: line.ranked for name, line in worked_out.items()} == {
            name: line.ranked for name, line in real.items()
        }


@pytest.mark.parametrize("point", ["rank_pool=10", "fusion.method=rrf", "min_score=0.5"])
async def test_where_more_than_weights_differs_the_recall_itself_is_asked(tried: Trials, point: str) -> None:
    other = at(tried.plan.profile, grid_of([point])[0])
    assert await Reweighed(tried).run(other, what="either") == await tried.run(other, what="real")


CASCADE = {"cascade.enabled": True, "cascade.threshold": 1.0, "cascade.merge.score": 0.0}
BY_CLASS = {"temporal": {"ranking": {"time": 0.0}}, "factual": {"ranking": {"late": 3.0}}}


def _deciding(tried: Trials) -> dict[str, Profile]:
    """Profiles of which more than the weights decides the order."""
    plain = tried.plan.profile
    by_class = Profile.model_validate(plain.model_dump() | {"strategies": BY_CLASS})
    return {"cascade": at(plain, CASCADE), "strategies": by_class}


@pytest.mark.parametrize("kind", ["cascade", "strategies"])
async def test_a_profile_with_a_cascade_or_strategies_is_asked_itself(tried: Trials, kind: str) -> None:
    profile = _deciding(tried)[kind]
    own = Trials(_with(tried, profile=profile), tried.opened, tried.contents, Silent())
    for other in (profile, at(profile, {"ranking.length": 2.0})):
        real = await own.run(other, what="real")
        assert await Reweighed(own).run(other, what="either") == real
        assert real != await own.run(tried.plan.profile, what="without"), "it ranks otherwise, or this says nothing"


async def test_a_sweep_and_an_ablation_of_a_cascade_are_of_the_cascade(tried: Trials) -> None:
    profile = _deciding(tried)["cascade"]
    queries = tried.plan.queries[:8]
    own = Trials(_with(tried, profile=profile, queries=queries), tried.opened, tried.contents, Silent())
    counting = judged(queries)

    async def recall_of(by: Trials, other: Profile) -> float:
        run = await by.run(other, what="real")
        return figures_of({"one": run}, counting, against="one", depths=(5,))[0].scores.means["recall@5"].mean

    point = grid_of(["ranking.late=0"])
    swept = await sweep(own, point, by="recall@5", depths=(5,))
    assert [one.scores.means["recall@5"].mean for one in swept] == [
        await recall_of(own, profile),
        await recall_of(own, at(profile, point[0])),
    ]
    ablated = {one.name: one.scores.means["recall@5"].mean for one in await ablate(own, depths=(5,))}
    words = own.with_sources({"lexical": own.sources["lexical"]})
    assert ablated[profile.profile] == swept[0].scores.means["recall@5"].mean
    assert ablated["source lexical alone"] == await recall_of(words, profile)
    assert ablated["source rdf alone"] == 0, "no layer searches another source"


async def test_what_is_held_out_of_a_cascade_is_measured_in_the_cascade(tried: Trials) -> None:
    profile = _deciding(tried)["cascade"]
    own = Trials(_with(tried, profile=profile), tried.opened, tried.contents, Silent())
    asked: list[tuple[Profile, int]] = []

    class Listening(Trials):
        async def run(self, profile: Profile, *, what: str) -> Run:
            asked.append((profile, len(self.plan.queries)))
            return await super().run(profile, what=what)

        def of_queries(self, queries: Sequence[JudgedQuery]) -> Trials:
            return Listening(_with(own, queries=queries), own.opened, own.contents, Silent(), own.sources)

    tuned = await tune(
        Listening(own.plan, own.opened, own.contents, Silent(), own.sources),
        LearningOptions(parts=("fusion", "time", "length")),
        depths=(1,),
    )
    folds = [one for one, count in asked if one.cascade.enabled and count < len(own.plan.queries)]
    assert [one.ranking.model_dump() for one in folds] == list(tuned.folds.values())


async def test_keywords_in_memory_are_those_of_the_index(tried: Trials) -> None:
    index, sparse = tried.opened.index, SparseEncoder()
    assert index is not None
    told = changes(read_memories(DATA / "memories.jsonl"))
    own = KeywordIndex(told, sparse)
    for query in tried.plan.queries[:10]:
        terms, scope = sparse.encode_query(query.text), Scope(tenant=query.conversation)
        expected = await index.search_sparse(terms, scope, 50)
        for ours, theirs in zip(await own.search_sparse(terms, scope, 50), expected, strict=True):
            assert dict(ours) == pytest.approx(dict(theirs), rel=1e-4)
    assert await own.search_sparse(sparse.encode_query("dinner"), Scope(tenant="another"), 50) == [[], []]


async def test_other_constants_of_keywords_are_other_scores(tried: Trials) -> None:
    told = changes(read_memories(DATA / "memories.jsonl"))
    terms = SparseEncoder().encode_query("What did we have for dinner?")
    scope = Scope(tenant="times")
    plain, _ = await KeywordIndex(told, SparseEncoder()).search_sparse(terms, scope, 5)
    flat, _ = await KeywordIndex(told, SparseEncoder(KeywordWeights(b=0.0))).search_sparse(terms, scope, 5)
    assert plain != flat


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
    found = await sweep(tried, grid_of(["ranking.time=0,1.5", "bm25.b=0.25"]), by="recall@1", depths=(1,))
    assert [one.name for one in found] == [
        "reflect.v1",
        "ranking.time=1.5 bm25.b=0.25",
        "ranking.time=0 bm25.b=0.25",
    ]
    assert found[2].against["recall@1"].difference.high < 0


async def test_an_ablation_tells_what_each_part_adds(tried: Trials) -> None:
    some = Trials(_with(tried, queries=tried.plan.queries[:8]), tried.opened, tried.contents, Silent())
    found = {one.name: one for one in await ablate(some, depths=(1,))}
    without = found["without part time"].against["recall@1"]
    assert (without.wins, without.losses) == (0, 8 - without.ties)
    assert without.losses >= 2, "what was found inside a past time has a place in the fused score, too"
    assert {name for name in found if name.startswith("baseline")} == {f"baseline {name}" for name in BASELINES}
    assert found["source lexical alone"].scores.queries == 8


async def test_baselines_search_as_they_say(tried: Trials) -> None:
    question = tried.plan.queries[0]
    like = Baseline(name="like")
    alone = tried.with_sources(await like.sources(tried.opened, tried.contents))
    found = (await alone.run(like.profile, what="like"))[question.id]
    texts = {memory.id: memory.text.casefold() for memory in read_memories(DATA / "memories.jsonl")}
    held = [sum(word in texts[name] for word in ("dinner", "yesterday")) for name in found.ranked]
    assert held == sorted(held, reverse=True)
    assert held[0] > 0
    for name in ("bm25", "dense", "rrf"):
        other = Baseline(name=name)
        sources = await other.sources(tried.opened, tried.contents)
        assert set(sources) == set(other.profile.sources_on)


async def test_the_worst_queries_tell_where_their_evidence_is_and_why(tried: Trials) -> None:
    blind = at(tried.plan.profile, {"ranking.time": 0.0})
    other = Trials(_with(tried, profile=blind), tried.opened, tried.contents, Silent())
    seen = await worst(other, by="recall@1", limit=3, depth=1)
    told = seen.queries
    assert len(told) == 3
    assert seen.below > 3
    assert seen.failures["time"] == seen.below, "the questions of this set ask for a time, or name one"
    assert all("time" in one.failures for one in told)
    for one in told:
        assert one.value == 0
        (evidence,) = one.evidence
        assert evidence.rank is None or evidence.rank > 1
        assert evidence.why
        assert [each.rank for each in one.found] == [1, 2, 3]
        assert one.found[0].id != evidence.id
