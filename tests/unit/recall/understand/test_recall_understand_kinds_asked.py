from __future__ import annotations

import pytest

from orion_recall.recall.understand.kinds_asked import asks_for_calendar, asks_for_chatter
from orion_recall.text.normal import words
from orion_recall.values import Interval, QuestionTime


@pytest.mark.parametrize("question", ["What joke did Ina tell?", "How was the weather?", "Who said hello to me?"])
def test_greetings_jokes_and_the_weather_are_chatter(question: str):
    assert asks_for_chatter(words(question))


@pytest.mark.parametrize("question", ["Where does Ina live?", "What did we talk about yesterday?", ""])
def test_other_questions_do_not_ask_for_it(question: str):
    assert not asks_for_chatter(words(question))


AHEAD = QuestionTime(intervals=(Interval(1.0, 2.0, "period", "in April"),), of="told", ahead=True)


@pytest.mark.parametrize(
    "question",
    [
        "What is on in April?",
        "Which meetings are there in April?",
        "What do we have in April?",
        "Anything in April?",
    ],
)
def test_a_calendar_is_asked_for_by_all_that_is_on(question: str):
    assert asks_for_calendar(words(question), AHEAD)


@pytest.mark.parametrize("question", ["What music are we doing in April?", "Which boat sails in April?"])
def test_one_thing_of_a_time_is_no_calendar(question: str):
    assert not asks_for_calendar(words(question), AHEAD)
