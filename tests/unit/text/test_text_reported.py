from __future__ import annotations

import time

import pytest

from orion_recall.text.reported import mentions, reports


@pytest.mark.parametrize(
    "text",
    [
        "Hana said that the kiln is cold.",
        "Hana has just told me about it.",
        "I rang Hana about the clay. It is late; she says it comes on Tuesday.",
        "Hana, the one with the kiln, wrote again.",
        "According to Hana it is fine.",
        "A mail from Hana: the kiln is cold.",
        "I was told by Hana.",
        "Hana's advice was to wait.",
        "Hana wants the keys back.",
        '"Wait", said Hana.',
    ],
)  # fmt: skip
def test_what_a_person_said_is_reported(text: str):
    assert reports(text, ["hana"])


@pytest.mark.parametrize(
    "text",
    ["Hana works here.", "I told Hana about it.", "Ben said it to Hana.", "Shana said so.",
     "I said so before Hana.", "Took Hana's van to the garage. Back on Monday, they said."],
)  # fmt: skip
def test_what_others_said_is_not(text: str):
    assert not reports(text, ["hana"])


def test_a_name_is_mentioned_as_words():
    assert mentions("I met Hana Sato.", ["hana sato"])
    assert not mentions("Shana and Hanabi", ["hana"])


def test_hostile_texts_take_no_time():
    began = time.process_time()
    for text in ("Hana " * 5_000, "Hana, " + "a " * 5_000, "hana's " * 5_000, "she " * 5_000 + "hana"):
        reports(text, ["hana"])
    assert time.process_time() - began < 20
