from __future__ import annotations

from orion_recall.evaluation.systems.registry import SYSTEMS


def test_the_systems_of_the_analysis_are_compared_against_their_targets() -> None:
    assert {one.name: one.target_ms for one in SYSTEMS} == {
        "like": None,
        "bm25_decay": 15.0,
        "dense": 100.0,
        "pagerank": None,
    }


def test_each_ranks_by_its_own_list_alone() -> None:
    for one in SYSTEMS:
        assert len(one.profile.sources_on) == 1
        weights = {name: weight for name, weight in one.profile.ranking.model_dump().items() if weight}
        assert weights == {"fusion": 1.0}, one.name
    assert {one.profile.fusion.method for one in SYSTEMS if one.name == "bm25_decay"} == {"bm25_decay"}
