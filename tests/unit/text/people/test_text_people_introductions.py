from __future__ import annotations

import time

import pytest

from orion_recall.text.people.introductions import asks_who, introduces


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Who is Hana Sato?", "Hana Sato"),
        ("who's wim?", "wim"),
        ("And who was Wim again?", "Wim"),
        ("Who is my boss?", None),
        ("Who is Wim's boss?", None),
        ("Who is the owner of Fjord Labs?", None),
        ("Who is coming tomorrow?", None),
        ("What is Hana?", None),
        ("", None),
    ],
)  # fmt: skip
def test_who_is_asked_about(text: str, name: str | None):
    assert asks_who(text) == name


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("My sister Hana Sato fires the kiln.", 1.0),
        ("Hana is our landlady.", 1.0),
        ("Hana, the vet, came by.", 1.0),
        ("Hana Sato, head of pictures, wrote.", 1.0),
        ("The press officer, Hana, wrote.", 1.0),
        ("I'm Hana, hello.", 1.0),
        ("Hana here, about the kiln.", 1.0),
        ("Hanako, we called her Hana.", 1.0),
        ("Hana runs the market stall.", 0.5),
        ("I saw Hana at the market.", 0.0),
        ("Sold the blue car to Hana Sato.", 0.0),
        ("Saw the play with Hana.", 0.0),
        ("Shana is our landlady.", 0.0),
        ("The kiln is cold.", 0.0),
    ],
)  # fmt: skip
def test_texts_that_say_who_somebody_is(text: str, worth: float):
    assert introduces(text, "Hana") == worth


def test_hostile_texts_take_no_time():
    began = time.process_time()
    for text in ("Hana, " * 1_000, "my a " * 1_000 + "Hana", "Hana " * 1_000, "the " * 2_000):
        introduces(text, "Hana")
        asks_who(f"who is {text}")
    assert time.process_time() - began < 20
