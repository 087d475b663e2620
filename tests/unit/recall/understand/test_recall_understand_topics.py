"""A question for all that is known of something is searched by what it is about."""

from __future__ import annotations

import pytest

from orion_recall.recall.understand.topics import topic_of


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("What do we know about Zaza?", "Zaza"),
        ("what's known about the heat pump", "the heat pump"),
        ("Tell me everything you know about Mira.", "Mira"),
        ("tell me about the trip in March", "the trip in March"),
        ("Could you please tell me what you know about Rex?", "Rex"),
        ("What do we have on file about Ana?", "Ana"),
        ("What about lunch?", "lunch"),
        ("Any news from Levan?", "Levan"),
        ("Do you know anything about the boiler?", "the boiler"),
        ("So what became of Zaza?", "Zaza"),
        ("What is new with Manana?", "Manana"),
        ("Everything about the house", "the house"),
    ],
)
def test_the_topic_of_a_question_for_everything(text: str, topic: str) -> None:
    assert topic_of(text) == topic


@pytest.mark.parametrize(
    "text",
    [
        "What do I have on Tuesday?",
        "anything on Tuesday?",
        "What did Ana say about the roof?",
        "Who knows about the roof?",
        "What do we know?",
        "What do you remember about me?",
        "When did you tell me about the crane?",
        "What do you like about Porto?",
    ],
)
def test_a_question_for_something_has_none(text: str) -> None:
    assert topic_of(text) is None
