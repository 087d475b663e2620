from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.graph.walks import Link, activation, pagerank, push

Spread = Callable[[Sequence[Link], Mapping[str, float]], dict[str, float]]
WAYS: tuple[Spread, ...] = (activation, push, pagerank)
ANA = {"ana": 1.0}
LINKS = [
    Link("ana", "m1", "told"),
    Link("ana", "m2", "mentioned"),
    Link("ana", "ida", "edge"),
    Link("ida", "m3", "told"),
    Link("m2", "bo", "mentions"),
    Link("bo", "m4", "mentioned"),
    Link("eve", "m5", "told"),
]
NODES = st.sampled_from(["a", "b", "c", "m1", "m2"])
ANY_LINKS = st.lists(
    st.builds(Link, NODES, NODES, st.sampled_from(["mentioned", "told", "edge", "mentions"]), st.floats(1, 1e6)),
    max_size=30,
)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_stated_of_a_seed_is_nearer_than_what_mentions_it_and_than_what_is_a_step_away(way: Spread):
    scores = way(LINKS, ANA)
    assert scores["m1"] > scores["m2"] > scores["m4"] > 0.0
    assert scores["m1"] > scores["m3"] > 0.0
    assert scores.get("m5", 0.0) == 0.0


def test_activation_decays_and_fires_once():
    there_and_back = [Link("ana", "ida", "edge"), Link("ida", "ana", "edge")]
    one, two = (activation(there_and_back, ANA, rounds=rounds, decay=0.5)["ida"] for rounds in (1, 9))
    assert one == two == pytest.approx(0.5 * 0.6)


def test_push_shares_by_weight():
    heavy = [Link("ana", "m1", "told", 16.0), Link("ana", "m2", "told")]
    assert push(heavy, ANA) == {"m1": pytest.approx(2 / 3), "m2": pytest.approx(1 / 3)}


@given(ANY_LINKS, st.dictionaries(NODES, st.floats(0.01, 1), min_size=1))
def test_scores_are_finite_and_what_a_walk_spends_is_one(links: list[Link], seeds: dict[str, float]):
    for way in WAYS:
        assert all(math.isfinite(value) and value >= 0.0 for value in way(links, seeds).values())
    if links:
        assert sum(pagerank(links, seeds).values()) == pytest.approx(1.0)


def test_a_chain_of_three_nodes_worked_by_hand():
    # 0 - 1 - 2, restarted at 0, damping d = 1/2. From 1 half goes each way, from 0 and 2 all goes to 1:
    # r0 = d * r1/2 + 1/2,  r1 = d * (r0 + r2),  r2 = d * r1/2   =>   r1 = 2/6, r2 = 1/12, r0 = 7/12.
    found = pagerank([Link("0", "1", "told"), Link("1", "2", "told")], {"0": 1.0}, damping=0.5, rounds=200)
    assert list(found.values()) == pytest.approx([7 / 12, 4 / 12, 1 / 12])
