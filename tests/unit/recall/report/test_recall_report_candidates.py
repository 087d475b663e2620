"""The candidates that a decision keeps: which recalls keep them, and what of each candidate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orion_recall.contracts import CandidateV1
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, candidates_of, candidates_to_keep, decision
from orion_recall.recall.types import Recalled
from tests.samples.layered import asked, cascading, of_kind
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, speaker="Bo", session_id="s1")
COPY = CRANE._replace(id="m2")
ORDER = view("m3", "I ordered it at Fjord Labs.", ts=NOW - 1800, speaker="Ana", session_id="s1", kind="plan")
SHED = view("m4", "The shed is painted.", session_id="s2")
ALL = (CRANE, COPY, ORDER, SHED)
HITS = tuple(hit(memory.id, 0.9 - place / 10) for place, memory in enumerate(ALL))


async def recalled_by(tokens: TokenCounter, by: Profile | None = None, **fields: Any) -> Recalled:
    arms = [FakeSource("vector", HITS), FakeSource("rdf", (hit("m3", 2.0, statements=("Ana ordered gearbox",)),))]
    return await recall(query(**fields), by or profile(), sources(tokens, arms, *ALL), now=NOW)


def by_id(kept: list[CandidateV1]) -> dict[str, CandidateV1]:
    return {one.id: one for one in kept}


def keeping(share: float, candidates: int = 50) -> Profile:
    return profile(decisions={"share": share, "candidates": candidates})


def test_the_share_of_the_queries_keeps_its_candidates_and_the_same_ones_again():
    ids = [f"c-{number}" for number in range(20_000)]

    def drawn(share: float) -> set[str]:
        return {name for name in ids if candidates_to_keep(keeping(share), name, is_traced=False)}

    assert 900 < len(drawn(0.05)) < 1100
    assert drawn(0.05) == drawn(0.05)
    assert drawn(0.05) < drawn(0.2)
    assert (drawn(0.0), len(drawn(1.0))) == (set(), len(ids))


def test_a_query_that_asks_for_a_trace_keeps_them_unless_none_are_wanted():
    assert candidates_to_keep(profile(), "c-1", is_traced=False) == 0
    assert candidates_to_keep(profile(), "c-1", is_traced=True) == 50
    assert candidates_to_keep(keeping(1.0, candidates=0), "c-1", is_traced=True) == 0


async def test_of_each_candidate_ranks_parts_and_weights_are_kept_that_give_its_score(tokens: TokenCounter):
    recalled = await recalled_by(tokens)
    kept = candidates_of(recalled, 50)
    order = by_id(kept)["m3"]
    assert (order.ranks, order.source, order.kept) == ({"vector": 3, "rdf": 1}, "rdf", True)
    scores = {item.candidate.key: item for item in recalled.ranked}
    assert [one.place for one in kept if one.place] == list(range(1, len(scores) + 1))
    for one in kept:
        assert one.score is not None
        assert one.parts.keys() == one.weights.keys()
        mean = sum(value * one.weights[name] for name, value in one.parts.items()) / sum(one.weights.values())
        assert mean == pytest.approx(one.score, abs=1e-5)


async def test_what_was_left_out_says_why_and_for_which_other(tokens: TokenCounter):
    by = profile(max_total_items=1)
    kept = by_id(candidates_of(await recalled_by(tokens, by, options={"exclude": ["m4"]}), 50))
    assert {name: (one.kept, one.dropped, one.dropped_for) for name, one in kept.items()} == {
        "m3": (True, None, None),
        "m1": (False, "max_total_items", None),
        "m2": (False, "near_duplicate", "m1"),
        "m4": (False, "excluded", None),
    }
    assert (kept["m2"].place, kept["m4"].score) == (None, None)


async def test_a_memory_that_the_query_may_not_see_is_counted_and_not_named(tokens: TokenCounter):
    recalled = await recalled_by(tokens, options={"kinds": ["plan"]})
    assert [one.id for one in candidates_of(recalled, 50)] == ["m3"]
    assert recalled.selection.dropped["filtered"] == 3


async def test_no_text_of_a_memory_is_in_them(tokens: TokenCounter):
    told = json.dumps([one.model_dump() for one in candidates_of(await recalled_by(tokens), 50)])
    for words in ("gearbox", "Fjord", "painted", "Ana", "ordered"):
        assert words not in told


async def test_some_room_is_left_for_those_that_were_dropped_before_the_order(tokens: TokenCounter):
    memories = [view(f"m{number}", f"{number} boats and {number * 7} cranes") for number in range(60)]
    hits = [hit(f"m{number}", 1.0 - number / 200) for number in range(60)]
    made = sources(tokens, [FakeSource("vector", hits)], *memories)
    options = {"exclude": [f"m{number}" for number in range(40, 60)]}
    recalled = await recall(query(options=options), profile(rank_pool=100), made, now=NOW)
    kept = candidates_of(recalled, 30)
    assert len(kept) == 30
    assert [one.dropped for one in kept].count("excluded") == 10
    assert len(candidates_of(recalled, 500)) == 60


async def test_items_of_a_cascade_name_their_layer(tokens: TokenCounter):
    (fact,), (episode,) = of_kind("world", "fact"), of_kind("experience", "episode")
    recalled, _ = await asked(tokens, {fact: 0.2, episode: 0.9}, cascading(threshold=0.7))
    assert {one.id: one.layer for one in candidates_of(recalled, 50)} == {"fact": "semantic", "episode": "episodic"}


async def test_a_decision_has_none_where_none_are_to_be_kept(tokens: TokenCounter):
    recalled = await recalled_by(tokens)

    def decided(candidates: int) -> list[CandidateV1] | None:
        facts = RequestFacts(decision_id="d", corr_id="c", query=query(), candidates=candidates)
        return decision(facts, outcome="ok", latency_ms=1.0, recalled=recalled).candidates

    assert decided(0) is None
    assert len(decided(2) or ()) == 2
