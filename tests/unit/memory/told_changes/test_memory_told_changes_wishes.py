"""Wishes and considerations state nothing, and say no change."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.told_changes.wishes import asks_for_wishes, is_advice, is_wish, without_wishes
from tests.samples.successions import DAY, reading

NEAREST = Nearness(cosine=0.6, rank=1, word_rank=1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Our broadband is with Nimbus, 30 euros.", "Thinking about switching to Kite for the broadband."),
        ("I smoke a pipe in the evening.", "I should really stop smoking the pipe."),
        ("The briefing is at 8:30.", "I want to move the briefing to 8:00."),
        ("I live in Odense.", "I wish I lived in Aarhus now."),
        ("The briefing is at 8:30.", "Maybe we should move the briefing to 8:00."),
    ],
)
def test_a_wish_succeeds_no_fact(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), NEAREST)
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The briefing is at 8:30.", "I'd like to sleep longer, so we moved the briefing to 9:00."),
        ("I smoke a pipe in the evening.", "I don't want to smoke the pipe. I quit smoking."),
    ],
)
def test_what_is_decided_beside_a_wish_counts(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), NEAREST)
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


def test_a_wish_ends_with_its_clause() -> None:
    assert (
        without_wishes("i'd like to sell the van, but it is sold. done.").split()
        == ", but it is sold. done.".split()
    )
    assert is_wish("i might sell the van")
    assert not is_wish("i don't want to sell the van")


def test_a_question_may_ask_for_wishes() -> None:
    assert asks_for_wishes("What would I like to own some day?")
    assert not asks_for_wishes("What do I drive?")


@pytest.mark.parametrize(
    "text",
    [
        "try the seltzer instead",
        "and then try it",
        "you could move to linz",
        "have you considered walking",
        "why not sell it",
    ],
)
def test_advice_is_what_nobody_has_done(text: str) -> None:
    assert is_advice(text)


@pytest.mark.parametrize(
    "text", ["i try to walk", "we try the new hall on monday", "the gym closes", "you moved to linz"]
)
def test_what_somebody_does_is_no_advice(text: str) -> None:
    assert not is_advice(text)
