from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from orion_recall.recall.confidence.answerable import answer_model
from orion_recall.recall.confidence.signals import asked_about, nearest_items, signals
from orion_recall.recall.pass_result import PassResult
from tests.samples.found import asked, found

NEAR = {"Two guinea pigs for Lotte's birthday on 8 December": (0.81, 0.46, 9.0), "What a wind": (0.2, 0.1, 0.0)}


def told(question: str, result: PassResult) -> Mapping[str, float]:
    understood = asked(question, "Tamsin")
    return signals(understood, asked_about(understood), result, nearest_items(result))


def near(question: str, *others: str) -> bool:
    """Whether the nearest memory counts as near, beside these others."""
    result = found({**NEAR, **dict.fromkeys(others, (0.3, 0.2, 3.0))})
    return told(question, result)["late"] > 0


@pytest.mark.parametrize(
    ("question", "other"),
    [
        ("When is Tamsin's birthday?", "Tamsin is off to the harbour"),
        ("When was Tamsin born?", "Tamsin is off to the harbour"),
        ("How old is Tamsin?", "Tamsin is off to the harbour"),
        ("How old is Tamsin?", "Tamsin has four kittens"),
        ("How old is Tamsin?", "Tamsin is 56 cm round the head"),
        ("What is Tamsin's phone number?", "Tamsin rang about the harbour"),
        ("What is Tamsin's email?", "Tamsin wrote about the harbour"),
        ("When is Gunnar's birthday?", "It was somebody's birthday"),
    ],
)
def test_a_fact_that_nobody_told_of_somebody_is_not_answered_with_another_persons(question: str, other: str):
    assert not near(question, other)


@pytest.mark.parametrize(
    ("question", "other"),
    [
        ("When is Tamsin's birthday?", "Tamsin turns forty on Friday"),
        ("When was Tamsin born?", "Tamsin's birthday is in May"),
        ("How old is Tamsin?", "Tamsin is forty now"),
        ("How old is Tamsin?", "we met Tamsin (9) at the pool"),
        ("How old is Tamsin?", "Tamsin, 41, is a captain"),
        ("How old is Tamsin?", "Tamsin's only seven"),
        ("What is Tamsin's phone number?", "Tamsin has a new line: 555 01 90"),
        ("What is Tamsin's email?", "Tamsin can be had at tamsin@harbour.example"),
        ("When is Tamsin's birthday?", "L'anniversaire de Tamsin est le 3 mai, et nous sommes tous invités"),
        ("When is Tamsin's boat race?", "Tamsin is off to the harbour"),
        ("When is my birthday?", "Tamsin is off to the harbour"),
        ("What did I get for the old Ranger?", "The Ranger threw a rod, the scrapyard took it"),
    ],
)
def test_what_may_tell_it_leaves_the_nearest_as_near_as_it_is(question: str, other: str):
    assert near(question, other)


def test_the_turn_beside_one_that_names_somebody_may_tell_it_with_a_pronoun():
    result = found(
        {
            **NEAR,
            "Tamsin is off to the harbour": (0.3, 0.2, 3.0),
            "Hers is in May, she was born in Rye": (0.3, 0.2, 3.0),
        }
    )
    last = result.scored[-1]
    beside = replace(last, memory=last.memory._replace(beside=(result.scored[-2].candidate.key,)))
    named = replace(result.scored[-2], memory=result.scored[-2].memory._replace(beside=(last.candidate.key,)))
    joined = replace(result, scored=[*result.scored[:-2], named, beside])
    assert told("When is Tamsin's birthday?", result)["late"] == 0
    assert told("When is Tamsin's birthday?", joined)["late"] > 0


def test_the_probability_is_small_where_a_fact_is_lacking():
    lacking = told("When is Tamsin's birthday?", found({**NEAR, "Tamsin is off": (0.3, 0.2, 3.0)}))
    assert answer_model().probability(lacking) < 0.01
