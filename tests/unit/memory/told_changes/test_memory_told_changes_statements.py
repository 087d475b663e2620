"""Plain statements of one value: another value of the same is a succession, and other statements are none."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.told_changes.statements import statements_in
from tests.samples.successions import DAY, reading

# What is so alike is the nearest of all that is known.
NEAREST = Nearness(cosine=0.65, rank=1, word_rank=1)


def confidence(old: str, new: str, *, by: str = "Ida") -> float:
    judged = judge(reading(new, at=DAY, speaker=by), reading(old), NEAREST)
    return 0.0 if judged is None else judged.confidence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I work at Acme.", "I work at Bolt now."),
        ("I work at Acme.", "I work at Bolt."),
        ("I work at Acme.", "I started working at Bolt on Monday."),
        ("I work at Acme.", "I've got a new job at Bolt!"),
        ("My boss is Maria.", "My boss is Jonas."),
        ("My dentist is Dr. Shah.", "Dr. Okoro is my dentist."),
        ("Sven is the CTO.", "Lara is the new CTO."),
        ("Sven is our CTO.", "Lara is our CTO now."),
        ("The owner of the repo is Sven.", "Lara is the owner of the repo."),
        ("Our office is in Hull.", "Our office is in Leeds now."),
        ("Production runs on Heroku.", "Production runs on AWS now."),
        ("The API limit is 100 requests.", "The API limit is 200 requests."),
        ("The team has five people.", "The team has seven people now."),
        ("My salary is 50,000.", "My salary is 55,000."),
        ("My email is a@example.org.", "My email is b@example.org now."),
        ("The wifi password is tulip9.", "The wifi password is rose77."),
        ("My favourite colour is blue.", "My favourite colour is green now."),
        ("I drive a Golf.", "I drive a Tesla now."),
        ("Standup is at 9:00.", "Standup starts at 9:30 from Monday."),
        # As an extractor writes facts.
        ("User lives in Berlin.", "User lives in Munich."),
        ("User works as a nurse.", "User works as a teacher."),
        ("User is vegetarian.", "User is vegan now."),
        ("User's favourite food is sushi.", "User's favourite food is ramen."),
        ("User's timezone is Europe/Berlin.", "User's timezone is America/New_York."),
        ("User's birthday is 3 May.", "User's birthday is 5 May."),
        ("User is 34 years old.", "User is 35 years old."),
        ("User weighs 80 kg.", "User weighs 76 kg."),
        ("The project uses Python 3.10.", "The project uses Python 3.12."),
        ("The default branch is master.", "The default branch is main."),
        ("The budget is 10,000 euros.", "The budget is 12,000 euros."),
        ("The service listens on port 8080.", "The service listens on port 9090."),
        ("The staging URL is https://one.example.org.", "The staging URL is https://two.example.org."),
        ("The model in production is GPT-4.", "The model in production is Claude."),
    ],
)
def test_another_value_of_what_has_one_is_a_succession(old: str, new: str) -> None:
    assert confidence(old, new) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My sister is Anna.", "My sister is Berta."),
        ("Tom is my brother.", "Ben is my brother."),
        ("Lara is the best.", "Tom is the best."),
        ("My boss is Maria.", "My boss is Portuguese."),
        ("My boss is Maria.", "My boss is on holiday now."),
        ("My dentist is Dr. Shah.", "My dentist is in Leeds."),
        ("Anna is in Rome.", "Anna is in Oslo."),
        ("The winner is Anna.", "The winner is Ben."),
        ("The film is by Lynch.", "The film is by Wong."),
        ("The soup today is leek.", "The soup today is pea."),
        ("The red box has five keys.", "The blue box has seven keys."),
        ("The team has five people.", "The team has two dogs."),
        ("The API limit is 100 requests.", "The API timeout is 200 seconds."),
        ("The wifi password is tulip9.", "The door password is rose77."),
        ("I work at Acme.", "I work on the roof now."),
        ("I live in Porto.", "I live with Anna now."),
        ("I have two cats.", "I have three meetings."),
        ("The project uses Python 3.10.", "The project uses Redis 7."),
        ("User uses Slack.", "User uses Vim."),
        ("The status of Atlas is green.", "The status of Orion is red."),
        ("User is a mother.", "User is a nurse."),
        ("Our cat is called Max.", "Our cat is hungry now."),
        ("My tutor is Anna Berg.", "Anna is my tutor."),
        ("The flat is in Leith.", "The flat is on the third floor now."),
    ],
)
def test_another_statement_is_none(old: str, new: str) -> None:
    assert confidence(old, new) < SUCCEEDS


def test_what_is_mine_is_not_yours() -> None:
    assert confidence("My boss is Maria.", "My boss is Jonas.", by="Bo") < SUCCEEDS
    assert confidence("I work at Acme.", "I work at Bolt now.", by="Bo") < SUCCEEDS


@pytest.mark.parametrize(
    "text",
    [
        "Is my boss Maria?",
        "My boss was Maria.",
        "If my boss is Maria, good.",
        "My boss is not Maria.",
        "He is the CTO.",
    ],
)
def test_what_states_nothing_of_now_is_no_statement(text: str) -> None:
    assert statements_in([text], "ida") == ()
