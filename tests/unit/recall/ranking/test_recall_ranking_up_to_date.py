"""A newer value of what is asked for goes before the older one; everything else stays where it is."""

from __future__ import annotations

import pytest

from orion_recall.profile.sections import Succession
from orion_recall.recall.ranking.newer import asked_kinds
from orion_recall.recall.ranking.up_to_date import with_newer_values
from orion_recall.scoring.candidates import NewerThan, ScoredCandidate
from orion_recall.values import Question
from tests.samples.ranked import item, question

MARK = Succession(mark_confidence=0.5)
OVEN = "Signed for the oven with Brandsma. Delivery on 2 March."
LATER = "Brandsma called, it is now the 30th of March."


def order(asked: Question, *items: ScoredCandidate, settings: Succession = MARK) -> list[str]:
    return [one.memory.id for one in with_newer_values(items, asked, settings)]


WHEN = question("When is the oven delivered?", when=True)


@pytest.fixture
def signed() -> ScoredCandidate:
    return item("signed", OVEN, 0.8, day=1, names=("Brandsma",))


@pytest.fixture
def called() -> ScoredCandidate:
    return item("called", LATER, 0.1, day=9)


def test_a_newer_date_of_the_same_thing_is_first_though_it_repeats_no_word_of_the_question(
    signed: ScoredCandidate, called: ScoredCandidate
):
    other = item("other", "Bread is ready on 7 March now.", 0.5, day=5)
    found = with_newer_values([signed, other, called], WHEN, MARK)
    assert [one.memory.id for one in found] == ["called", "signed", "other"]
    assert found[0].newer_than == NewerThan(signed.candidate.key, "signed", "time")
    assert found[1].newer_than is None
    total = sum(found[0].parts[name] * weight for name, weight in found[0].weights.items())
    assert total / sum(found[0].weights.values()) == pytest.approx(found[0].score, abs=1e-6)


def test_of_several_newer_values_the_newest_is_first(signed: ScoredCandidate, called: ScoredCandidate):
    again = item("again", "Brandsma: the crane has moved to 3 April.", 0.05, day=12)
    assert order(WHEN, signed, called, again) == ["again", "called", "signed"]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Brandsma called, it is now ready.", 9),  # tells no time
        ("Brandsma called on 30 March.", 9),  # does not say that anything is new
        ("The rowing is now on the 30th of March.", 9),  # is about something else
        (LATER, 0),  # is older
        (LATER, 400),  # is of a time after the question
        ("Brandsma, is it now the 30th of March?", 9),  # asks
    ],
)
def test_what_says_nothing_new_of_it_stays_where_it_is(signed: ScoredCandidate, text: str, day: float):
    assert order(WHEN, signed, item("other", text, 0.1, day=day)) == ["signed", "other"]


def test_only_for_questions_about_now_and_where_successions_count(signed: ScoredCandidate, called: ScoredCandidate):
    assert order(question("When was the oven delivered?", "before", when=True), signed, called)[0] == "signed"
    assert order(question("Who delivers the oven?"), signed, called)[0] == "signed"
    assert order(WHEN, signed, called, settings=Succession(outdated="keep"))[0] == "signed"


def test_the_part_of_a_long_memory_that_the_question_asks_for_must_tell_the_value(called: ScoredCandidate):
    long = " ".join(
        [
            "Delivery of the oven is on 2 March.",
            "Brandsma wants a crane for it and a parking permit from the city council in time, he says.",
            "The neighbours on both sides were asked and have nothing against it as long as the yard stays clean.",
        ]
    )
    assert order(WHEN, item("long", long, 0.8, day=1, names=("Brandsma",)), called) == ["long", "called"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("What time is rehearsal?", {"clock", "date", "month", "weekday"}),
        ("What does a loaf cost?", {"money", "number"}),
        ("Which room is Ma in?", {"number"}),
        ("Who is my boss?", set[str]()),
    ],
)
def test_the_types_of_value_that_a_question_asks_for(text: str, kinds: set[str]):
    assert asked_kinds(question(text)) == kinds
