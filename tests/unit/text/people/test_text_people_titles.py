from __future__ import annotations

import time

import pytest

from orion_recall.text.people.titles import names_in, title_names


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Fjord Labs", ("fjord labs",)),
        ("Mercury (planet)", ("mercury planet", "mercury")),
        ("The Umbra   Works, Bergen", ("the umbra works bergen",)),
        ("one two three four five six", ("one two three four five six",)),
        ("one two three four five six seven", ()),
        ("?!", ()),
        ("(1999)", ("1999",)),
        ("Straße", ("strasse",)),
    ],
)
def test_a_title_is_called_as_it_stands_and_without_brackets_at_its_end(title: str, names: tuple[str, ...]):
    assert title_names(title) == names


@pytest.mark.parametrize(
    "title",
    [
        "Fjord Labs",
        "University of Bergen",
        "The Umbra Works",
        "machine learning",
        "3 Miles",
        "Ana's Boat",
        "ＡＢＣ Straße",
    ],
)
def test_a_text_names_a_title_wherever_that_stands_in_it(title: str):
    for text in (title, f"She wrote of {title}.", f"It was {title}'s end, and that of others."):
        assert title_names(title)[0] in names_in(text), text


def test_a_long_text_is_read_up_to_a_bound():
    began = time.process_time()
    names = names_in("Umbra Works built the harbour crane. " * 30_000 + "Bergen")
    assert "bergen" not in names
    assert len(names_in("é" + "\u0301" * 1_000_000)) <= 1
    assert time.process_time() - began < 20
