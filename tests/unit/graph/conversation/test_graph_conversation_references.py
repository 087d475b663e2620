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


@pytest.mark.parametrize("text", ["you said ", "we talked about the x y ", "you have already ", '"', "you really "])
def test_no_text_takes_long_to_read(text: str):
    began = time.process_time()
    refers_back(text * 5000)
    quotations(text * 5000)
    assert time.process_time() - began < 1.0
