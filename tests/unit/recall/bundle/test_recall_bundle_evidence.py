from __future__ import annotations

import pytest

from orion_recall.recall.bundle.evidence import NO_EVIDENCE, Place, WantedEvidence, sentences, worth
from orion_recall.values import AnswerType


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
