"""Which phrases say a change, and of what."""

from __future__ import annotations

import pytest

from orion_recall.memory.told_changes.clauses import changed_in, heard_in, sentences_of, without_absences
from orion_recall.text.normal import words


def said(text: str) -> list[list[str]]:
    return [words(sentence) for sentence in sentences_of(text.casefold())]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Graham is off to Wakefield", "end"),
        ("Sheila leaves at the end of May", "end"),
        ("my Zoom is gone", "end"),
        ("the timber has gone up", "amount"),
        ("the opening can't be the 28th", "shift"),
        ("I've gone over to Hindenburg", "switch"),
        ("from Monday on we meet upstairs", "change"),
        ("from 18 on it is quiet", "change"),
        ("we've pulled out of the flat in Elm Road", "end"),
        ("he handed in his notice", "leaves"),
        ("Bo handed the mill project over to Ana", "handover"),
    ],
)
def test_a_phrase_of_change_is_heard(text: str, kind: str) -> None:
    assert kind in heard_in(words(text.casefold()))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("my back hurts from lying on sofas", "change"),
        ("Greta takes over from Farid on Monday", "change"),
        ("he handed in his notice", "handover"),
        ("she handed me the bread", "handover"),
        ("the agency has gone quiet", "end"),
        ("Runa is off that week", "end"),
    ],
)
def test_a_phrase_that_only_looks_like_it_is_not(text: str, kind: str) -> None:
    assert kind not in heard_in(words(text.casefold()))


@pytest.mark.parametrize(
    ("text", "is_called_off"),
    [
        ("the trip is off", True),
        ("the trip is off, Ana broke her leg", True),
        ("tomorrow is off he's ill", True),
        ("Vienna is off for now", True),
        ("Graham is off to Wakefield", True),
        ("the vet is off work with a cold", False),
        ("Dr Mwangi is off island, so your appointment is on Tuesday", False),
        ("Lea's off sick and Tom was off school", False),
        ("I'm off dairy", False),
    ],
)
def test_whoever_is_away_calls_nothing_off(text: str, *, is_called_off: bool) -> None:
    assert ("end" in heard_in(words(without_absences(text.casefold())))) == is_called_off


@pytest.mark.parametrize(
    "text",
    [
        "floor 4,150 and rug 1,900, leaves 3,050",
        "that leaves us two days",
        "the timber has gone up",
        "my voice has gone to bed without me",
    ],
)
def test_what_is_left_over_or_dearer_has_not_ended(text: str) -> None:
    assert heard_in(words(text)).isdisjoint(("end", "leaves"))


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("Esme's temperature is gone, she's back to being an otter.", "temperature", "otter"),
        ("The Zoom slid into the harbour. Gone.", "zoom", "nothing"),
        ("The hall is full. It is moved to Friday.", "hall", "nothing"),
        ("The church hall has a burst pipe. From Monday on we are in the depot.", "hall", "nothing"),
        ("The alcove wasn't empty. I moved the atlases by myself.", "atlases", "alcove"),
        ("Choir sang well. The rehearsal is off tonight.", "rehearsal", "choir"),
    ],
)
def test_a_change_is_of_what_its_clause_tells(text: str, has: str, lacks: str) -> None:
    changed = changed_in(said(text))
    assert has in changed
    assert lacks not in changed
