"""Questions about now and about before."""

from __future__ import annotations

import pytest

from orion_recall.recall.understand.tenses import asks_about, says_now, without_use_to
from orion_recall.text.normal import words
from orion_recall.values import NO_TIME, Interval, QuestionTime

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    "text",
    [
        "Who is my dentist?",
        "What's my phone number?",
        "Where do I park these days?",
        "How much does the gym cost?",
        "Does Jana still smoke?",
        "By when do I have to send the report?",
        "Which editor do we use?",
        "Who leads the mobile team?",
    ],
)
def test_the_present(text: str) -> None:
    assert asks_about(words(text), NO_TIME, now=NOW) == "now"


@pytest.mark.parametrize(
    "text",
    [
        "Who was my dentist before Dr. Okafor?",
        "Where did I use to park?",
        "What did the gym cost previously?",
        "How has the deadline moved?",
        "What has changed in the band?",
        "What is the history of the release date?",
        "How did the rent develop?",
        "How did my sister use to get to work?",
        "Where did the old boat club use to meet?",
        "How did we used to pay?",
        "Who used to be my boss?",
    ],
)
def test_before(text: str) -> None:
    assert asks_about(words(text), NO_TIME, now=NOW) == "before"


@pytest.mark.parametrize(
    "text",
    ["What did Jana say about the gym?", "What happened yesterday?", "When did I sell the car?",
     "Did Jana get used to the noise?", "What was it used to clean?"],
)  # fmt: skip
def test_what_happened_is_neither(text: str) -> None:
    assert asks_about(words(text), NO_TIME, now=NOW) is None


@pytest.mark.parametrize(
    ("text", "tense"),
    [("what rate I get from them", "now"), ("where Gaspard lives", "now"), ("what size shoes Salma takes", "now"),
     ("where rehearsals?", "now"), ("Rent?", "now"), ("what I bought in Arles", None), ("where we parked it", None),
     ("what Salma told me", None), ("Photos of the boat trip to Genoa", None)],
)  # fmt: skip
def test_a_clause_and_a_few_words_have_a_tense_as_well(text: str, tense: str | None) -> None:
    assert asks_about(words(text), NO_TIME, now=NOW) == tense


def test_a_time_that_is_over_is_not_the_present() -> None:
    past = QuestionTime(intervals=(Interval(NOW - 90_000, NOW - 3600, "date", "on Monday"),))
    ahead = QuestionTime(intervals=(Interval(NOW + 3600, NOW + 90_000, "date", "on Friday"),))
    asked = words("What is on Monday?")
    assert asks_about(asked, past, now=NOW) is None
    assert asks_about(asked, ahead, now=NOW) == "now"


def test_an_order_of_steps_is_not_what_was_before() -> None:
    assert asks_about(words("What do I do before I lock the shop?"), NO_TIME, now=NOW) == "now"
    assert asks_about(words("What must I check before starting the kiln?"), NO_TIME, now=NOW) == "now"
    assert asks_about(words("Which pills do I take before breakfast?"), NO_TIME, now=NOW) == "now"
    assert asks_about(words("Does Ana swim once a week?"), NO_TIME, now=NOW) == "now"
    assert asks_about(words("Where did I live before I moved?"), NO_TIME, now=NOW) == "before"
    assert asks_about(words("Who is my dentist, and who before?"), NO_TIME, now=NOW) == "before"


@pytest.mark.parametrize(
    ("text", "tense"),
    [
        ("How old is Jonna?", "now"),
        ("How much did we get for the old piano?", None),
        ("What was my old address?", "before"),
        ("What is Oda's old number?", "before"),
        ("Who was the old landlord?", "before"),
    ],
)
def test_old_asks_for_what_was_before_where_it_is_somebodys(text: str, tense: str | None) -> None:
    assert asks_about(words(text), NO_TIME, now=NOW) == tense


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("How did Mikkel use to get to work?", "How did Mikkel get to work?"),
        ("How did my sister's boss used to travel?", "How did my sister's boss travel?"),
        ("Where didn't we use to go?", "Where didn't we go?"),
        ("Did she get used to the noise?", "Did she get used to the noise?"),
        ("What did Ana use to clean the tiles?", "What did Ana use to clean the tiles?"),
    ],
)
def test_use_to_is_taken_out_of_a_question_where_it_says_no_more_than_before(text: str, rest: str) -> None:
    assert without_use_to(text) == rest


@pytest.mark.parametrize(
    "asked", ["who is my boss now?", "what is the current limit", "do we still meet on mondays"]
)
def test_some_questions_say_themselves_that_they_are_about_now(asked: str):
    assert says_now(words(asked))


@pytest.mark.parametrize("asked", ["who is my boss?", "when is the recital", "now " * 40])
def test_others_do_not(asked: str):
    assert not says_now(words(asked))
