"""Successions are told from look-alikes: judged pairs, and what decides single ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orion_recall.memory.succession.clauses import heard_in
from orion_recall.memory.succession.decide import SUCCEEDS, Nearness, judge
from orion_recall.text.normal import words
from tests.samples.successions import DAY, reading

PAIRS = Path(__file__).parents[3] / "data" / "successions" / "pairs.jsonl"


def confidence(old: str, new: str, **more: Any) -> float:
    judged = judge(reading(new, at=DAY, **more), reading(old))
    return 0.0 if judged is None else judged.confidence


def test_sixty_successions_are_told_from_eighty_four_look_alikes() -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    assert sum(pair["succeeds"] for pair in pairs) == 60
    assert len(pairs) == 144
    right = wrong = missed = 0
    for pair in pairs:
        old, new = pair["old"], pair["new"]
        judged = judge(
            reading(new["text"], speaker=new["speaker"], at=DAY), reading(old["text"], speaker=old["speaker"])
        )
        is_said = judged is not None and judged.confidence >= SUCCEEDS
        right += is_said and pair["succeeds"]
        wrong += is_said and not pair["succeeds"]
        missed += not is_said and pair["succeeds"]
    assert right / (right + wrong) >= 0.9
    assert right / (right + missed) >= 0.7


def test_only_a_newer_memory_of_the_same_tenant_succeeds() -> None:
    old, new = "The meeting is on Monday.", "The meeting was moved to Tuesday."
    assert confidence(old, new) >= SUCCEEDS
    assert judge(reading(new), reading(old, at=DAY)) is None
    assert judge(reading(new, at=None), reading(old)) is None
    assert judge(reading(new, at=DAY, tenant="other"), reading(old)) is None


def test_questions_and_repetitions_succeed_nothing() -> None:
    assert confidence("The meeting is on Monday.", "Was the meeting moved to Tuesday?") == 0.0
    assert confidence("The gate code is 4471 now.", "the gate code is 4471 NOW") == 0.0


def test_what_somebody_else_is_quoted_with_is_no_statement() -> None:
    old = "The invoices go to the accounts desk in room 5."
    quoted = 'Odd mail: "From now on every invoice goes to our new accounts desk abroad, do it today."'
    assert confidence(old, quoted) < SUCCEEDS


def test_a_near_text_counts_more_than_a_far_one() -> None:
    old, new = reading("The launch is set for 1 September."), reading("Launch got pushed back two weeks.", at=DAY)
    near, far = Nearness(cosine=0.6, rank=1), Nearness(cosine=0.1, rank=12)
    first, last = judge(new, old, near), judge(new, old, far)
    assert first is not None and first.confidence > (last.confidence if last else 0.0)


@pytest.mark.parametrize(
    "text", ["", "?", "!!!", "x" * 100_000, 'a "' * 20_000, "no longer " * 20_000, "\u0301" * 5000]
)
def test_any_text_can_be_read(text: str) -> None:
    assert judge(reading(text, at=DAY, name="new"), reading("The gate code is 4471.")) is None or text


def test_whoever_gets_anothers_seat_takes_over() -> None:
    old = "I answer to Greta Holm, the works manager."
    assert confidence(old, "It is settled: Aron Vik gets Greta's desk in May.") >= SUCCEEDS
    assert confidence(old, "Aron Vik found a mouse under Greta's desk in May.") < SUCCEEDS


def test_what_is_moved_is_the_same_however_far_its_text_is() -> None:
    old, new = (
        reading("The report on the weir is due on 4 May."),
        reading("I pushed the weir report back to 9 May.", at=DAY),
    )
    far = judge(new, old, Nearness(cosine=0.3, rank=9, word_rank=9))
    assert far is not None
    assert far.confidence >= SUCCEEDS


def test_a_change_of_something_else_is_not_told_of_the_older_text() -> None:
    old, far = (
        "The harbour tour is on Tuesday 3 March.",
        "Because of the tour I've pushed the proofs back to the 9th.",
    )
    near = Nearness(cosine=0.6, rank=1, word_rank=1)
    cause = judge(reading(far, at=DAY), reading(old), near)
    moved = judge(reading("I've pushed the tour back to the 9th.", at=DAY), reading(old), near)
    assert cause is None or cause.confidence < SUCCEEDS
    assert moved is not None
    assert moved.confidence >= SUCCEEDS


def test_a_value_that_is_named_as_the_one_before_must_be_the_older_ones() -> None:
    new = "A kilo of coffee is 18 euros instead of 16."
    assert confidence("A kilo of coffee is 16 euros.", new) >= SUCCEEDS
    assert confidence("A kilo of coffee is 25 euros at the roastery.", new) < SUCCEEDS


def test_what_an_assistant_advises_succeeds_nothing() -> None:
    old, new = "My lawyer is Ana Brix.", "Ana Brix retired, so from now on your lawyer is Jon Falk."
    assert confidence(old, new.replace("your", "my")) >= SUCCEEDS
    assert confidence(old, new, speaker="Assistant") == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "That talk really fired me up.",
        "We are fired up for the choir.",
        "I won't quit the choir.",
        "Now let's sing.",
    ],
)
def test_phrases_that_mean_something_else_say_no_change(text: str) -> None:
    assert not heard_in(words(text.casefold())) & {"end", "change", "shift", "present"}
