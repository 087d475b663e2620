from __future__ import annotations

import pytest

from orion_recall.recall.ranking.score import score_candidates
from orion_recall.scoring.candidates import Candidate
from orion_recall.scoring.part_values import QueryFacts
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import NOW, key, profile, view

FOUNDING = {"fusion": 0.0, "similarity": 0.6, "overlap": 0.2, "recency": 0.15, "evidence": 0.05}


def found(
    name: str, cosine: float, *, statements: tuple[str, ...] = (), **fields: object
) -> tuple[Candidate, MemoryView]:
    made = Candidate(key=key(name), fused=0.5, scores={"vector": cosine}, statements=statements)
    return made, view(name, **fields)  # pyright: ignore[reportArgumentType]


def test_the_founding_formula_is_a_profile():
    both = found("both", 0.5, entities=("Ana Miles", "Fjord Labs"), ts=NOW)
    one = found("one", 0.9, entities=("Bo",), statements=("Bo knows Ana",), ts=NOW - 72 * 3600)
    none = found("none", 0.4, ts=NOW)
    facts = QueryFacts(now=NOW, entities=("Ana", "Fjord Labs"), evidence={key("both"): 31.0, key("one"): 1.0})
    used = profile(ranking=FOUNDING, time_decay_half_life_hours=72)
    scored = {item.memory.id: item for item in score_candidates([both, one, none], used, facts)}
    assert scored["both"].score == pytest.approx(0.6 * 0.5 + 0.2 * 1.0 + 0.15 * 1.0 + 0.05 * 1.0)
    assert scored["one"].score == pytest.approx(0.6 * 0.9 + 0.2 * 0.5 + 0.15 * 0.5 + 0.05 * 0.2)
    assert scored["none"].score == pytest.approx(0.6 * 0.4 + 0.2 * 0.0 + 0.15 * 1.0 + 0.05 * 0.0)
    assert scored["one"].parts["overlap"] == 0.5


def test_parts_that_nothing_can_be_said_of_are_left_out():
    pair = [found("a", 0.5), found("b", 0.4)]
    used = profile(ranking=FOUNDING)
    without = score_candidates(pair, used, QueryFacts(now=NOW))
    assert all({"overlap", "evidence"}.isdisjoint(item.parts) for item in without)
    of_others = QueryFacts(now=NOW, entities=("Ana",), evidence={1: 1.0}, unindexed=frozenset((key("b"),)))
    parts = {item.memory.id: item.parts for item in score_candidates(pair, used, of_others)}
    assert parts["a"]["overlap"] == parts["a"]["evidence"] == 0.0
    assert {"overlap", "evidence"}.isdisjoint(parts["b"]), "an external store's memory has neither"


def test_they_weigh_nothing_unless_a_profile_says_so():
    facts = QueryFacts(now=NOW, entities=("Ana",), evidence={key("a"): 3.0})
    (item,) = score_candidates([found("a", 0.5, entities=("Ana",))], profile(), facts)
    assert {"overlap", "evidence"}.isdisjoint(item.parts)
