from __future__ import annotations

from orion_recall.profile import Profile, diff_profiles
from orion_recall.profile.sections import RankingWeights
from orion_recall.profile.watch import loaded_profiles
from tests.bench.ranking_ablation import RANK_POOL_BEFORE, before, graph_options, measured

REFLECT = loaded_profiles(None)["reflect.v1"].profile
DEEP = loaded_profiles(None)["deep.graph.v1"].profile


def _differing(one: Profile, other: Profile) -> set[str]:
    return {difference.key.partition(".")[0] for difference in diff_profiles(one, other)}


def test_what_was_added_is_switched_off_and_nothing_else() -> None:
    without = before(measured(REFLECT))

    assert without.ranking == RankingWeights()
    assert without.rank_pool == RANK_POOL_BEFORE
    assert _differing(measured(REFLECT), without) == {
        *("ranking", "rank_pool", "cascade"),
        *("no_answer", "strategies", "time", "graph"),
    }


def test_a_profile_that_uses_more_of_it_loses_that_too() -> None:
    without = before(measured(DEEP))

    assert not without.ranking.follows
    assert not without.graph.paths
    assert without.graph.hops == DEEP.graph.hops


def test_the_graph_arm_is_alone_by_default_and_with_each_option_of_the_deep_profile() -> None:
    options = graph_options(measured(REFLECT), DEEP)

    assert all(option.sources_on == ("rdf",) for option in options.values())
    first, *_, last = options
    assert (first, last) == ("by default", "as deep.graph.v1")
    assert options["as deep.graph.v1"].graph == DEEP.graph
    for told, option in list(options.items())[1:-1]:
        changed = _differing(options["by default"], option)
        assert changed == {"graph"}, told
    assert options["hops: 2"].graph.hops == 2
