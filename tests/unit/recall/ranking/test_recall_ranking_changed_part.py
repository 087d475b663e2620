"""A newer memory has changed what a question asks of an older one, or something else in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.ranking.changed_part import AskedChanges, _Elements, elements  # pyright: ignore[reportPrivateUsage]
from orion_recall.recall.ranking.reading import reading_of
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import view


def said(text: str, *names: str, speaker: str = "Imre") -> MemoryView:
    return view("m", text, entities=names, speaker=speaker)


def asks_for_changed(question: str, older: MemoryView, newer: MemoryView) -> float:
    old, new = (
        ScoredCandidate(candidate=Candidate(key=place), memory=one, score=0.5, parts={})
        for place, one in enumerate((older, newer))
    )
    return AskedChanges(question).share(old, new)


LESSONS = said("Lena goes to Elm Street School. She has violin with Mr Novak on Mondays at 15:00.", "Lena", "Novak")
DRUMS = said("Lena is done with Mr Novak, it is drums instead. Thursdays at 16:00.", "Lena", "Novak")
KIT = said("I film everything on the old Arri camera and I cut in Vegas.")
EDITOR = said("I have gone over to Resolve for the editing.")
TEAM = said("I live near the mill. Oda Berg is the producer of our series.", "Oda Berg")
LEAVING = said("Oda Berg went on maternity leave. It's Per Lund now.", "Oda Berg", "Per Lund")
HANDOVER = said("Oda Berg has left, Per Lund takes over her desk.", "Oda Berg", "Per Lund")


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("When does Lena have her lesson?", LESSONS, DRUMS),
        ("Who teaches Lena the violin?", LESSONS, DRUMS),
        ("Which program do I edit in?", KIT, EDITOR),
        ("Who is the producer of our series?", TEAM, HANDOVER),
        ("Who is the producer of our series?", TEAM, LEAVING),
        ("", LESSONS, DRUMS),
    ],
)
def test_what_is_changed_is_asked_for(question: str, older: MemoryView, newer: MemoryView) -> None:
    assert asks_for_changed(question, older, newer) == 1.0


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("Which school does Lena go to?", LESSONS, DRUMS),
        ("Which camera do I film on?", KIT, EDITOR),
        ("Where do I live?", TEAM, HANDOVER),
        ("What is our series about?", TEAM, HANDOVER),
        ("Who lives near the mill?", TEAM, LEAVING),
    ],
)
def test_something_else_is_asked_for(question: str, older: MemoryView, newer: MemoryView) -> None:
    assert asks_for_changed(question, older, newer) == 0.0


def test_without_a_word_in_common_it_is_half_sure() -> None:
    assert 0.0 < asks_for_changed("Is anything new?", KIT, EDITOR) < 1.0


def test_a_question_without_telling_words_asks_for_the_one_thing_that_a_text_tells() -> None:
    older = said("Settled! The cabin in Voss, 3 to 9 July.", "Voss")
    newer = said("Voss fell through, we take the cabin in Geilo instead.", "Voss", "Geilo")
    assert asks_for_changed("Where are we going in July?", older, newer) == 1.0
    assert 0.0 < asks_for_changed("Where are we going in July?", KIT, newer) < 1.0


def test_a_handover_is_of_whom_it_names_and_not_of_whom_it_greets() -> None:
    older = said("I edit for the Post. Oda Berg is the producer of our series.", "Oda Berg", speaker="Imre")
    newer = said("Dear Imre, I am on leave. Per Lund takes over my desk.", "Imre", "Per Lund", speaker="Oda Berg")
    assert asks_for_changed("Who is the producer of our series?", older, newer) == 1.0
    assert asks_for_changed("Who edits for the Post?", older, newer) == 0.0


def test_a_question_for_several_people_asks_for_a_person() -> None:
    assert asks_for_changed("Which producers do we work with?", TEAM, HANDOVER) > 0.0


WORDS = (
    "when how much does our Lena pay for lessons flat moved school violin Mondays 15:00 50 euros dog's who".split()
)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.lists(st.sampled_from(WORDS), max_size=12))
def test_what_a_memory_has_of_a_question_is_what_each_element_finds_in_it(asked: list[str], told: list[str]):
    each, reading = elements(" ".join(asked)), reading_of(said(" ".join(told)))

    compared = _Elements(each).compared(reading)

    assert compared.found == {place for place, one in enumerate(each) if one.is_in(reading.whole)}
    assert compared.stems == {one for element in each for one in element.stems} & reading.whole.stems
