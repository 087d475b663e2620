"""What a change is about: what ends, who does not come, whether a time is moved; and plans that come true."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.told_changes.clauses import phrases_in
from orion_recall.memory.told_changes.endings import SPEAKER, absentees_of, departure_of, objects_of
from orion_recall.text.normal import words
from tests.samples.successions import DAY, reading

NEAREST = Nearness(cosine=0.5, rank=1, word_rank=1)


def succeeds(old: str, new: str) -> bool:
    judged = judge(reading(new, at=DAY), reading(old), NEAREST)
    return judged is not None and judged.confidence >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "I bought a kayak from Jens for 200 euros.",
            "There is no more ferry after ten, so I take the kayak.",
            False,
        ),
        ("The kiln is new, they put it in last autumn.", "No more clay in town, so the kiln stays cold.", False),
        ("I dine at the ramen bar on Tuesdays.", "No more shellfish for me.", False),
        ("I take honey in my porridge.", "No more honey in my porridge.", True),
        ("We keep six hens behind the barn.", "Got rid of the tractor, the barn is quiet.", False),
        ("We keep six hens behind the barn.", "Got rid of the hens, the foxes won.", True),
        ("The trip to Kiruna is on 4 May.", "Kiruna is cancelled, the pilots strike.", True),
    ],
)
def test_an_end_is_of_what_is_named_as_over(old: str, new: str, expected: bool) -> None:
    assert succeeds(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("The ride to the lighthouse is on Sunday 9 August.", "I can't come to the ride, my ankle.", False),
        ("The bonfire at Ravi's is on Saturday.", "I can't make it to the bonfire, I am on call.", False),
        ("The bonfire at Ravi's is on Saturday.", "Hilde can't come to the bonfire.", False),
        ("The glazier comes on Thursday.", "The glazier can't come on Thursday.", True),
        ("I'm going to the bonfire on Saturday.", "I can't make it to the bonfire.", True),
        ("Hilde comes to the bonfire on Saturday.", "Hilde can't come to the bonfire.", True),
    ],
)
def test_whoever_cannot_come_ends_his_coming_and_not_the_event(old: str, new: str, expected: bool) -> None:
    assert succeeds(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("We're moving to Bergen in August.", "We moved to Bergen! The harbour is lovely.", False),
        ("We're moving to the house in Elm Road on 3 May.", "Moved into the house in Elm Road on 3 May.", False),
        ("My contract begins on 1 October.", "The move to Quarry Lane is on 1 October.", False),
        ("I live in Bergen.", "We moved to Narvik in August.", True),
        ("The hearing is on 3 May.", "The hearing on 3 May is called off.", True),
        ("The hearing is on 3 May.", "The hearing moved from 3 May to 10 June.", True),
        ("The hearing is on 3 May.", "The vote is on 3 June, no more speeches.", False),
        ("The tasting is on 3 May at the Lamb.", "The tasting is on May 3rd, with Ferro and Lutz.", False),
    ],
)
def test_a_plan_that_comes_true_is_no_other_value(old: str, new: str, expected: bool) -> None:
    assert succeeds(old, new) is expected


@pytest.mark.parametrize(
    ("text", "shifts"),
    [
        ("the hearing moved to friday", True),
        ("the hearing is moved to the 9th", True),
        ("we moved the hearing", True),
        ("they moved it back a week", True),
        ("the slot slips to june", True),
        ("our move is on friday", False),
        ("we moved to the coast", False),
        ("moved!", False),
        ("i can't make it", False),
        ("gran slipped on the ice", False),
    ],
)
def test_a_time_is_moved_by_what_is_moved_to_a_time(text: str, shifts: bool) -> None:
    assert ("shift" in phrases_in(words(text))) is shifts


def test_what_was_shut_on_a_day_is_not_over() -> None:
    assert "end" not in phrases_in(words("the museum was closed, so we walked"))
    assert "end" in phrases_in(words("the museum has closed for good"))


def test_a_question_is_not_succeeded_by_another_time_of_what_it_names() -> None:
    asked = "Will you sing at our feast? Oda has the notes."
    assert not succeeds(asked, "Oda and I have moved the feast to 12 May.")


def test_a_higher_price_is_not_of_the_number_of_a_house() -> None:
    old = "I rent a loft at 31 Weaver Street from Mrs Idowu."
    assert not succeeds(old, "Mrs Idowu raised the rent to 690 from May.")
    assert succeeds("The rent of the loft is 640 euros.", "Mrs Idowu raised the rent of the loft to 690.")


def test_objects_and_absentees_are_read_from_around_the_phrase() -> None:
    assert objects_of(words("there is no more ferry after ten"), ["no", "more"]) == ["ferry"]
    assert objects_of(words("the trip is cancelled the crew is ill"), ["cancelled"]) is None
    assert objects_of(words("the trip slips"), ["slips"]) is None
    assert absentees_of(words("sorry but i can't come"), ["can't", "come"]) == [SPEAKER]
    assert absentees_of(words("the glazier can't come"), ["can't", "come"]) == ["glazier"]


@pytest.mark.parametrize(
    "said", ["We moved to Birch Lane today! Ole carried the piano.", "We moved to Birch Lane yesterday."]
)
@pytest.mark.parametrize(
    "old",
    [
        "We're thinking about moving nearer to work, maybe something on Birch Lane.",
        "Signed for the flat at 12 Birch Lane. We move on 3 March, and the rent is 740.",
    ],
)
def test_a_plan_that_comes_true_on_a_day_that_is_told_is_no_change(old: str, said: str) -> None:
    assert not succeeds(old, said)


def test_a_date_that_is_not_there_yet_is_no_new_date() -> None:
    assert "shift" not in phrases_in(words("no new date yet"))
    assert "shift" in phrases_in(words("there is a new date"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "The night train to Turin was late, slept on Otto's floor.",
            "Tea with Hanne, she hardly sleeps. She says Ludo is leaving the Corvina bank for a firm in Turku.",
            False,
        ),
        ("Hanne doesn't own a car.", "Hanne doesn't drive. She says Ludo is leaving the Corvina bank.", False),
        (
            "Ludo is the clerk at the Corvina bank who stamps our papers.",
            "Hanne says Ludo is leaving the bank.",
            True,
        ),
        ("I work at the Corvina bank.", "I'm leaving Corvina in May.", True),
    ],
)
def test_who_leaves_ends_only_what_tells_of_him_or_of_what_he_leaves(old: str, new: str, expected: bool) -> None:
    assert succeeds(old, new) is expected


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("I have fencing Mondays at six, so you walk the dog on those days, ok?", True),
        ("Fencing every Monday at six.", True),
        ("Can you drive me to the fencing on Monday, ok?", False),
        ("Mira has fencing on Mondays at six.", False),
        ("The fencing hall in Elm Road has a new roof.", False),
    ],
)
def test_what_i_gave_up_is_what_i_did(old: str, expected: bool) -> None:
    assert succeeds(old, "I gave up the fencing. The trainer is never on time.") is expected


def test_who_leaves_and_what_are_read_from_around_the_phrase() -> None:
    assert departure_of(words("she says ludo is leaving the bank in may"), ["is", "leaving"]) == ["ludo", "bank"]
    assert departure_of(words("i'm leaving tarn at once"), ["i'm", "leaving"]) == [SPEAKER, "tarn"]
    assert departure_of(words("she is leaving"), ["is", "leaving"]) == []
    assert departure_of(words("the trip is cancelled"), ["cancelled"]) is None
