"""A question for a place wants a place: which texts name one."""

from __future__ import annotations

import pytest

from orion_recall.text.places import gives_home, gives_place


@pytest.mark.parametrize(
    "text",
    [
        "We are in Lund now.",
        "It is 9 Mill Lane.",
        "rue Curiol, third floor",
        "She stays at the Birkenhof.",
        "Ludwigstraße",
    ],
)
def test_a_place_is_named(text: str) -> None:
    assert gives_place(text)


@pytest.mark.parametrize(
    "text", ["The landlady is Mrs Idowu.", "I paid Mrs Idowu on Monday.", "It ends in June.", "We met on 3 May."]
)
def test_persons_and_times_are_no_places(text: str) -> None:
    assert not gives_place(text)


def test_a_home_is_a_place_where_somebody_lives() -> None:
    assert gives_home("We moved to 9 Mill Lane.")
    assert not gives_home("We spend a week in Brittany.")
    assert not gives_home("The landlady lives downstairs, Mrs Idowu.")
