from __future__ import annotations

import math
from dataclasses import replace

import pytest

from orion_recall.recall.candidates.decay import Decay, fused_limit, newest_favoured, with_decay
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import Shelf, key, profile, view

HOUR = 3600.0
NOW = 1_800_000_000.0
PAPER = Decay(now=NOW, half_life_hours=math.log(2) / 0.01, minimum=0.0)


def aged(name: str, hours: float) -> MemoryView:
    return view(name, ts=NOW - hours * HOUR)


def test_an_hour_against_a_week_differs_by_more_than_two() -> None:
    recent, old = PAPER.factor(aged("a", 1.0)), PAPER.factor(aged("b", 168.0))
    assert recent == pytest.approx(math.exp(-0.01))
    assert old == pytest.approx(math.exp(-1.68))
    assert recent > old * 2.0


def test_the_decay_has_a_floor_and_undated_memories_a_half() -> None:
    bounded = replace(PAPER, minimum=0.05)
    assert PAPER.factor(aged("a", 24 * 30)) < 0.001
    assert bounded.factor(aged("a", 24 * 30)) == 0.05
    assert bounded.factor(view("b", ts=None)) == 0.5
    assert bounded.factor(aged("c", -5)) == 1.0


def test_only_a_profile_that_fuses_by_it_has_a_decay() -> None:
    assert Decay.of(profile(), NOW) is None
    assert Decay.of(profile(fusion={"method": "min_max"}), NOW) is None
    made = Decay.of(
        profile(fusion={"method": "bm25_decay"}, time_decay_lambda_per_hour=0.1, recency_floor=0.2), NOW
    )
    assert made is not None
    assert (made.now, made.half_life_hours, made.minimum) == (NOW, pytest.approx(6.93, abs=0.01), 0.2)
    assert (fused_limit(None, 48), fused_limit(made, 48)) == (48, None)


def test_scores_are_multiplied_and_ordered_again() -> None:
    old, new = Candidate(key=1, fused=1.0), Candidate(key=2, fused=0.5)
    pairs = [(old, aged("old", 168.0)), (new, aged("new", 1.0))]
    assert [one.key for one, _ in with_decay(pairs, None)] == [1, 2]
    assert [one.key for one, _ in with_decay(pairs, PAPER)] == [2, 1]
    assert (old.fused, new.fused) == (pytest.approx(math.exp(-1.68)), pytest.approx(0.5 * math.exp(-0.01)))


async def test_the_limit_keeps_what_is_best_after_the_decay() -> None:
    held = Shelf(aged("old", 1000.0), aged("new", 1.0))
    pool = [Candidate(key=key("old"), fused=1.0), Candidate(key=key("new"), fused=0.5), Candidate(key=3, fused=0.4)]
    kept = await newest_favoured(pool, PAPER, 1, [], [held], 1.0)
    assert [(one.key, one.fused) for one in kept] == [(key("new"), 0.5)]
    assert await newest_favoured(pool, None, 1, [], [held], 1.0) is pool


async def test_what_brings_its_own_text_stays_beyond_the_limit() -> None:
    held = Shelf(aged("new", 1.0))
    brought = Candidate(key=9, fused=0.9, read=lambda: aged("brought", 900.0))
    kept = await newest_favoured([brought, Candidate(key=key("new"), fused=0.5)], PAPER, 1, [], [held], 1.0)
    assert [one.key for one in kept] == [key("new"), 9]
