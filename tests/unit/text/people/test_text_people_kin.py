from __future__ import annotations

import pytest

from orion_recall.text.people.kin import KIN, SYNONYMS, asks_family, tells_kin


@pytest.mark.parametrize(
    "text",
    ["My older sister lives there.", "Wim's boy is six.", "Mum rang.", "her husband Jan", "our aunt and uncle"],
)
def test_texts_that_tell_of_a_relative(text: str):
    assert tells_kin(text)


@pytest.mark.parametrize("text", ["My bike is red.", "The brothers Grimm", "a sonnet", "Mumbai", ""])
def test_texts_that_do_not(text: str):
    assert not tells_kin(text)


def test_a_family_is_asked_for_by_its_words():
    assert asks_family(frozenset(["who", "belongs", "to", "my", "family"]))
    assert not asks_family(frozenset(["my", "sister"]))


def test_further_words_for_kin():
    assert "mum" in SYNONYMS["mother"]
    assert SYNONYMS["mum"] == ("mother",)
    assert SYNONYMS["husband"] == ("hubby", "spouse") and SYNONYMS["spouse"] == ("husband", "wife")
    assert {"sister", "uncle"} <= set(SYNONYMS["family"]) <= KIN
