from __future__ import annotations

import time

import pytest

from orion_recall.text.normal import words
from orion_recall.text.people.roles import asks_assistant, is_assistant, names_assistant


@pytest.mark.parametrize(
    "name",
    [
        "assistant",
        "Assistant",
        "AI",
        "ai",
        "AI Assistant",
        "Your Assistant",
        "the bot",
        "Support-Bot",
        "agent",
        "GPT",
    ],
)
def test_names_of_assistants_are_known(name: str):
    assert names_assistant(name)


@pytest.mark.parametrize(
    "name", ["Ai", "Ai Sato", "Dental assistant", "Travel agent", "Botond", "Top Model", "", None]
)
def test_names_of_people_and_their_jobs_are_no_assistants(name: str | None):
    assert not names_assistant(name)


def test_a_speaker_who_is_the_memorys_own_agent_is_an_assistant():
    assert is_assistant("Halcyon", agent_id="halcyon")
    assert not is_assistant("Ruth", agent_id="halcyon")
    assert not is_assistant(None, agent_id="halcyon")


@pytest.mark.parametrize(
    "question",
    [
        "What did you recommend for the roof?",
        "Which plan did you come up with?",
        "What have you already suggested about the lease?",
        "You told me about a museum, which one?",
        "You've previously listed three hostels",
        "What was your best advice on knives?",
        "What did the assistant say about the visa?",
        "What was the bot's answer?",
        "Which tips have you given me?",
    ],
)
def test_questions_for_what_the_assistant_said_are_recognised(question: str):
    assert asks_assistant(words(question))


@pytest.mark.parametrize(
    "question",
    [
        "What did I tell you about Ruth?",
        "Can you tell me what I said about the roof?",
        "Do you remember when I gave you the list?",
        "How would you suggest I do it?",
        "What did Ruth recommend?",
        "Did you make it to the concert?",
        "When is your mother's answer due?",
        "Do you know who made the cake?",
    ],
)
def test_questions_for_what_people_said_are_not(question: str):
    assert not asks_assistant(words(question))


def test_no_text_makes_the_question_slow():
    said = words("you previously " * 5_000 + "did you " * 5_000)
    began = time.process_time()
    assert not asks_assistant(said)
    assert time.process_time() - began < 10
