from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.classes import FACTUAL, Classified, classify
from orion_recall.text.normal import words
from orion_recall.values import QUERY_CLASSES, QueryClass
from orion_recall.when.times import times

CLOCK = datetime(2026, 11, 22, 12, tzinfo=UTC)


def asked(text: str) -> Classified:
    said = words(text)
    return classify(said, times(text, CLOCK), now=CLOCK.timestamp())


@pytest.mark.parametrize(
    ("text", "query_class", "deciding"),
    [
        ("Which colour is the boat?", "factual", ()),
        ("Ana", "factual", ()),
        ("", "factual", ()),
        ("What happened with the database configuration last week?", "temporal", ("what happened", "last week")),
        ("When did Ana sell the boat?", "temporal", ("when",)),
        ("How long did the repair take?", "temporal", ("how long",)),
        ("What did we talk about in our first session?", "temporal", ("first session",)),
        ("How should I optimize the memory system?", "planning", ("how should", "optimize")),
        ("What did Ana recommend for the crane?", "factual", ()),
        ("Do you recommend the slow belt?", "planning", ("do you recommend",)),
        ("How to optimize PostgreSQL?", "procedural", ("how to",)),
        ("How do we flash a board?", "procedural", ("how do we",)),
        ("What are the steps to start the pump?", "procedural", ("steps to",)),
        ("How do Ana and Bo know each other?", "relational", ("know each other",)),
        ("Who is Ana's sister?", "relational", ("who is", "ana's sister")),
        ("What is the name of the wife of the engraver?", "relational", ("wife of",)),
        ("Who is our contact in Oslo?", "relational", ("who is", "is our contact")),
        ("What is due on Friday?", "prospective", ("is due", "Friday")),
        ("What does Bo still have to do?", "prospective", ("still have to",)),
        ("Remind me of the dentist", "prospective", ("remind me",)),
        ("What do we know about Leonor?", "meta", ("what do we know about",)),
        ("Is there anything on record of the crane?", "meta", ("on record",)),
    ],
)
def test_a_question_has_the_class_that_its_words_say(text: str, query_class: QueryClass, deciding: tuple[str, ...]):
    assert asked(text) == Classified(query_class, deciding)


@pytest.mark.parametrize(
    "text",
    [
        "My sister said that it rained",
        "What's mother reading?",
        "Where did they go by bus?",
        "Which film did Bo like?",
    ],
)
def test_words_that_only_look_like_a_cue_decide_nothing(text: str):
    assert asked(text) == FACTUAL


def test_of_two_classes_that_are_told_alike_the_more_special_one_is_taken():
    assert asked("Do I have to know how to sail?").query_class == "procedural"
    assert (
        asked("What do they know about the plan to sail, and what do you remember about it?").query_class == "meta"
    )


def test_a_time_that_lies_ahead_speaks_for_what_is_to_be_done():
    assert asked("What has to be done next week?").query_class == "prospective"
    assert asked("What did we have for dinner last week?").query_class == "temporal"


def test_a_longer_cue_counts_instead_of_the_shorter_ones_in_it():
    assert asked("Is there a plan for the garden?").words == ("plan for",)


@given(st.text(max_size=500))
def test_any_text_has_a_class(text: str):
    found = asked(text)
    assert found.query_class in QUERY_CLASSES
    assert bool(found.words) == (found.query_class != "factual")
