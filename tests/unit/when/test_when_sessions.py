from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.when.times import session_named, session_words, times

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("what did we say in our first session", 1, "first session"),
        ("what did you recommend the last time we talked", -1, "last time we talked"),
        ("in the 12th conversation", 12, "12th conversation"),
        ("session 4", 4, "session 4"),
        ("chat #3", 3, "chat #3"),
        ("the second to last session", -2, "second to last session"),
        ("the conversation before last", -2, "conversation before last"),
        ("the third time we met", 3, "third time we met"),
    ],
)
def test_a_session_is_named_by_its_place(text: str, place: int, words: str):
    assert session_named(text) == (place, words)
    found = times(text, NOW)
    assert (found.session, found.intervals) == (place, ())


@pytest.mark.parametrize(
    "text",
    ["what did Ana say", "a session of 40 minutes", "session 0", "session 4 minutes long", "the last chat show"],
)
def test_other_numbers_are_no_sessions(text: str):
    assert session_named(text) is None


@pytest.mark.parametrize(
    ("place", "words"), [(1, "first"), (-1, "last"), (-2, "second to last"), (2, "2nd"), (13, "13th"), (23, "23rd")]
)
def test_the_place_is_told_in_words(place: int, words: str):
    assert session_words(place) == words
