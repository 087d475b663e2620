"""Habits: what comes again is over or at another pace, of the same people and of the same thing."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import UNKNOWN, Nearness
from tests.samples.successions import DAY, reading

NEAR = Nearness(cosine=0.55, rank=1, word_rank=1)


def confidence(old: str, new: str, near: Nearness) -> float:
    judged = judge(reading(new, at=DAY), reading(old), near)
    return 0.0 if judged is None else judged.confidence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I swim every day.", "I don't swim any more."),
        ("I swim every morning.", "I stopped swimming."),
        ("I swim in the lake every morning.", "I stopped swimming."),
        ("I swim every day.", "I swim every other day now."),
        ("We meet monthly with the reading circle.", "The reading circle meets every other week now."),
        ("The reading circle meets once a month.", "The reading circle doesn't meet any more."),
        ("The audit is yearly.", "The audit is every two years now."),
        ("I call my mother every day.", "I call my mother twice a week now."),
        ("The bins are emptied every Monday.", "The bins are emptied every other Monday now."),
        ("The newsletter goes out monthly.", "The newsletter is quarterly now."),
        ("I take vitamin D every day.", "I take vitamin D every other day now."),
    ],
)
def test_a_habit_that_ends_or_has_another_pace_is_succeeded(old: str, new: str) -> None:
    assert confidence(old, new, UNKNOWN) >= SUCCEEDS
    assert confidence(old, new, NEAR) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I swim every day.", "I swim every day now."),
        ("I swim every day.", "I run every other day now."),
        ("I swim every day.", "My sister swims every other day now."),
        ("Bo swims every day.", "I swim every other day now."),
        ("I swim every day.", "I stopped swimming early."),
        ("I swim every day.", "I stopped swimming today because of the lightning."),
        ("I swim every day.", "I stopped swimming when it began to rain."),
        ("I swim every day.", "No swimming any more until Easter."),
        ("The bins are emptied every Monday.", "The paper is emptied every other Monday now."),
        ("I call my mother every day.", "I call my brother every week now."),
        ("The audit is yearly.", "The audit took two days."),
        ("I walk the dog every day.", "I don't walk any more."),
        ("I paint boats every day.", "I don't paint any more."),
        ("The club meets every fortnight.", "The club meets every other week now."),
        ("The club meets fortnightly.", "The club meets every two weeks now."),
    ],
)
def test_what_tells_no_other_pace_of_the_same_thing_ends_no_habit(old: str, new: str) -> None:
    assert confidence(old, new, UNKNOWN) < SUCCEEDS
    assert confidence(old, new, NEAR) < SUCCEEDS


def test_another_speakers_habit_goes_on() -> None:
    judged = judge(
        reading("I swim every other day now.", at=DAY), reading("I swim every day.", speaker="Finn"), NEAR
    )
    assert judged is None or judged.confidence < SUCCEEDS
