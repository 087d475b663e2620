from __future__ import annotations

import pytest

from orion_recall.recall.understand.context import names_in_context
from orion_recall.recall.understand.entities import NamedEntity
from orion_recall.text.normal import words

CONTEXT = "I met Mira Vogel in Oslo last week.\nShe told me of Bergen. That is far."


def found(question: str, context: str | None = CONTEXT, *own: str) -> tuple[str, ...]:
    return names_in_context(context, words(question), [NamedEntity(name, "capitalised") for name in own])


def test_what_a_pronoun_points_to_is_what_was_said_last():
    assert found("When did she move there?") == ("Bergen", "Oslo", "Mira Vogel")


@pytest.mark.parametrize(
    ("question", "context", "own"),
    [
        ("When did Ana move there?", CONTEXT, ("Ana",)),  # it names whom it means
        ("What is the wifi password?", CONTEXT, ()),  # it points to nobody
        ("When did she move there?", None, ()),
        ("When did she move there?", "", ()),
        ("When did she move there?", "nobody was named.", ()),
    ],
)
def test_nothing_is_taken_from_the_context_that_the_question_does_not_leave_to_it(
    question: str, context: str | None, own: tuple[str, ...]
):
    assert found(question, context, *own) == ()


def test_only_the_end_of_a_long_context_is_read():
    assert found("Where is it?", "Lisbon is large. " + "and so on it went " * 200) == ()
