from __future__ import annotations

import pytest

from orion_recall.recall.understand.shape import asks_for_list
from orion_recall.text.normal import words


@pytest.mark.parametrize(
    "question",
    [
        "Which parcels have I sent back?",
        "Which doctors do I see?",
        "Which Spanish courses did we take?",
        "What languages does Ines speak?",
        "Which of my plants need shade?",
        "What have I lent to the neighbours since May?",
        "What have we spent so far?",
        "Who belongs to the orchestra?",
        "Who is in my climbing group?",
        "Who's in my family?",
        "Who are my cousins?",
        "What are the names of our hens?",
        "What are all the allergies in the house?",
        "List the open tasks",
        "List all invoices, please.",
        "Give me a list of my passwords' places",
        "Tell me all the films we saw",
        "Name all the bakers in town",
        "Show me every receipt",
        "How many marathons have I run?",
        "How many people work there?",
        "Can you list my subscriptions?",
        "What do I keep in the cellar?",
        "What else did Mo bring?",
        "Did Kai repair all the chairs?",
        "What are my deadlines?",
    ],
)
def test_a_question_for_all_of_a_kind_asks_for_a_list(question: str):
    assert asks_for_list(words(question))


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Where do I live?",
        "Which bus goes to the harbour?",
        "Which class did Ines take?",
        "What is my address?",
        "Who is my boss?",
        "Who are you?",
        "When is the concert?",
        "How do I reset the router?",
        "How many days are left?",
        "How many tablets does the dog get?",
        "How many eggs do I need for the cake?",
        "How long is the bridge?",
        "What are the steps to publish?",
        "What are the ingredients of the soup?",
        "What did we talk about yesterday?",
        "What has Ben said?",
        "What was going on all day?",
        "Why is he late all the time?",
        "What does she want?",
        "What series did we watch?",
        "Does Mia eat fish?",
        "What news is there?",
        "What has changed in the office since May?",
        "What has happened so far?",
        "How many miles are there in a league?",
        "What is this?",
        "x " * 500,
    ],
)
def test_a_question_for_one_answer_does_not(question: str):
    assert not asks_for_list(words(question))
