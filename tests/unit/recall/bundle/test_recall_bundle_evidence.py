from __future__ import annotations

from dataclasses import replace

import pytest

from orion_recall.recall.bundle.snippet import NO_EVIDENCE, Place, WantedEvidence, sentences, wanted_evidence, worth
from orion_recall.time_values import NO_TIME
from orion_recall.values import AnswerType, Question


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One is here. Two is there!", ["One is here.", "Two is there!"]),
        ("It costs 3.50 at Dr. Wu's. Fine?", ["It costs 3.50 at Dr. Wu's.", "Fine?"]),
        ("He asked “why?” Then he left…", ["He asked “why?”", "Then he left…"]),
        ("no end", ["no end"]),
        ("", []),
    ],
)
def test_sentences_end_at_their_marks(text: str, parts: list[str]):
    assert [text[begin:end].strip() for begin, end in sentences(text)] == parts


def test_of_one_kind_of_evidence_the_first_counts_most():
    places = [Place(0, 3, "crane", 1.0), Place(5, 8, "crane", 1.0), Place(9, 12, "boat", 0.5)]
    assert worth(places, 0, 12) == pytest.approx(1.6)
    assert worth(places, 0, 4) == 1.0
    assert worth(places, 20, 30) == 0.0


def test_what_an_answer_is_expected_to_have_is_evidence():
    text = "We met Oskar at 9:30, on Friday, and ivy was there."
    found = WantedEvidence(answer=AnswerType(name=True, number=True, known=frozenset({"oskar"})), asks_when=True)
    told = sorted((place.what.strip(), text[place.start : place.end]) for place in found.places(text))
    assert told == [("name", "Friday"), ("number", "9:30,"), ("time", "9:30"), ("time", "Friday")]
    assert NO_EVIDENCE.places(text) == []


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("the new date is April 11th for all", ["april 11th"]),
        ("leave on the 3rd of May at 8:15", ["3rd of may", "8:15"]),
        ("movers come on the 11th", ["on the 11th"]),
        ("by 6 Nov. or in March", ["6 nov", "march"]),
    ],
)
def test_a_day_and_its_month_are_one_piece(text: str, dates: list[str]):
    wanted = WantedEvidence(answer=AnswerType(), asks_when=True)
    assert [text[place.start : place.end].lower() for place in wanted.places(text)] == dates


def test_of_what_is_to_come_its_times_are_wanted():
    asked = Question(text="", dense_text="", keyword_text="", terms=frozenset(), now=0.0, text_hash="")
    for ahead in (True, False):
        assert wanted_evidence(replace(asked, time=replace(NO_TIME, ahead=ahead))).asks_when == ahead
