from __future__ import annotations

import time

import pytest

from orion_recall.graph.conversation import quotations, refers_back


@pytest.mark.parametrize(
    ("text", "said_by"),
    [
        ("As we discussed, the boat leaves at nine.", "we"),
        ("So as agreed, Monday.", "we"),
        ("Last week we talked about the trip.", "we"),
        ("Going back to what bothered me.", "we"),
        ("In our last chat it was blue.", "we"),
        ("Like you said last week, the boiler is old.", "you"),
        ("You've already mentioned a clinic before.", "you"),
        ("The plan you suggested works.", "you"),
        ("Remember when you fell in?", "you"),
        ("I told you yesterday that it leaks.", "i"),
        ("What I've just said stands.", "i"),
    ],
)
def test_words_that_refer_back_say_whose_words_they_mean(text: str, said_by: str):
    assert refers_back(text) == said_by


@pytest.mark.parametrize(
    "text", ["I went to the shop and told Bo.", "I came back to the office.", "You look well.", "As if!", ""]
)
def test_other_words_refer_to_nothing(text: str):
    assert refers_back(text) is None


def test_quotations_are_in_normal_form_of_three_words_or_more_and_each_is_given_once():
    text = 'It says “Keep the BLUE key, please” and "keep the blue key please", not \'no\' or "oh no" «da ist er».'
    assert quotations(text) == ["keep the blue key please", "da ist er"]
    assert len(quotations(" ".join(f'"one two number {place}"' for place in range(20)))) == 8


@pytest.mark.parametrize("text", ["you said ", "we talked about the x y ", "you have already ", '"', "you really "])
def test_no_text_takes_long_to_read(text: str):
    began = time.process_time()
    refers_back(text * 5000)
    quotations(text * 5000)
    assert time.process_time() - began < 1.0
