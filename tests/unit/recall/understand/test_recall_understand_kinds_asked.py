from __future__ import annotations

import pytest

from orion_recall.recall.understand.kinds_asked import asks_for_chatter
from orion_recall.text.normal import words


@pytest.mark.parametrize("question", ["What joke did Ina tell?", "How was the weather?", "Who said hello to me?"])
def test_greetings_jokes_and_the_weather_are_chatter(question: str):
    assert asks_for_chatter(words(question))


@pytest.mark.parametrize("question", ["Where does Ina live?", "What did we talk about yesterday?", ""])
def test_other_questions_do_not_ask_for_it(question: str):
    assert not asks_for_chatter(words(question))
