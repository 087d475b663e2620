from __future__ import annotations

import pytest

from orion_recall.when.direction import direction


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("i have the dentist on *", "ahead"),
        ("on * i ran", "past"),
        ("we booked a table on *", "ahead"),
        ("on * we booked a table", "past"),
        ("it moved to *", "ahead"),
        ("i moved to lyon in *", "past"),
        ("the call on * was long", "past"),
        ("it is planned for *", "ahead"),
        ("it should have come on *", "past"),
        ("we went to see it on *", "past"),
        ("she did not come on *", "past"),
        ("dentist on *", None),
        ("it rained so no walk on *", None),
    ],
)
def test_the_nearest_verb_says_the_direction(text: str, way: str | None):
    words = text.split()
    place = words.index("*")
    assert direction(words, place, place + 1) == way
