"""Questions in their plain form: what only asks is left out, and a topic stands in its place."""

from __future__ import annotations

import pytest

from orion_recall.recall.understand.wording import plainly


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Can you please remind me what Ana said about the roof?", "what Ana said about the roof?"),
        ("hey, do you know when the ferry leaves please", "when the ferry leaves"),
        ("I forgot who has the spare key", "who has the spare key"),
        ("remind me of the address I live at", "the address I live at"),
        ("so what's new in the choir", "what's new in the choir"),
        ("what happened this morning, I mean", "what happened this morning"),
        ("sum July up for me would you?", "sum July up for me?"),
        ("what've we got on Saturday", "what have we got on Saturday"),
        ("where'd I leave the caravan?", "where did I leave the caravan?"),
    ],
)
def test_what_only_asks_is_left_out(text: str, plain: str) -> None:
    assert plainly(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("I'm filling in a form, so could you please tell me where my husband works?", "where my husband works?"),
        ("I'd be glad if you could tell me what I did in May.", "what I did in May."),
        ("Before I start: would you mind telling me everything that happened on Friday?",
         "everything that happened on Friday?"),
        ("Somebody asked me over lunch: what does Nuala do for a living?", "what does Nuala do for a living?"),
        ("I need to check first: what's on on Saturday, please?", "what's on on Saturday?"),
        ("any chance you know when the ferry leaves", "when the ferry leaves"),
        ("help me out, can you recap July for me?", "can you recap July for me?"),
        ("Before I ring her back: what was it that Ana asked me today?", "what Ana asked me today?"),
        # What stands before it is needed.
        ("I'm ringing the dentist: what's the number?", "I'm ringing the dentist: what's the number?"),
        ("We sold the boat, so how much was it?", "We sold the boat, so how much was it?"),
        ("What areas of the U.S. has John been to?", "What areas of the U.S. has John been to?"),
    ],
)  # fmt: skip
def test_the_reason_for_asking_is_left_out_where_the_question_can_do_without(text: str, plain: str) -> None:
    assert plainly(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("spare key who", "who spare key"),
        ("Gaspard lives where", "where Gaspard lives"),
        ("dentist appt when?", "when dentist appointment?"),
        ("Tobi phone number", "what is Tobi's phone number?"),
        ("Chloe husband name?", "what is Chloe's husband's name?"),
        ("whats on this wk pls", "what's on this week"),
        ("is the ferry who", "is the ferry who"),
        ("Maria Callas name of the opera", "Maria Callas name of the opera"),
    ],
)
def test_what_is_typed_in_short_is_put_in_order(text: str, plain: str) -> None:
    assert plainly(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("my spare key, who's holding on to it", "who's holding on to my spare key"),
        ("Carla, who's she?", "who's Carla?"),
        ("Lionel's wife, what's her name", "what's Lionel's wife's name"),
        ("the corridor, what did Tendai say about that?", "what did Tendai say about the corridor?"),
        ("About the frame, what did Paul tell me?", "what did Paul tell me about the frame?"),
    ],
)
def test_a_topic_takes_the_place_of_its_pronoun(text: str, plain: str) -> None:
    assert plainly(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("what was it Salma told me last week", "what Salma told me last week"),
        ("What was Ivone telling me yesterday?", "what did Ivone tell me yesterday?"),
        ("tell me what Ivone was saying yesterday", "what did Ivone say yesterday"),
        ("Florence wanted to know something from me today, what was it", "what did Florence ask today?"),
        ("Inês has written about her farewell, what does she say", "what did Inês write about her farewell?"),
        (
            "Paul Esposito asked me something about the frame, what was it?",
            "what did Paul Esposito ask me about the frame?",
        ),
        ("what Clotilde's message about the live said", "what did Clotilde write about the live"),
    ],
)
def test_whose_words_are_wanted_is_asked_with_a_verb_of_saying(text: str, plain: str) -> None:
    assert plainly(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "thanks",
        "Good evening!",
        "Hello there, nice evening",
        "tell me about the boat",
        "What did the dermatologist tell me?",
        "What are we asking for a plain croissant?",
        "Who was it on the lights?",
        "Do you know Ana?",
        "Finn fed a seal, what did it look like?",
        "I want to post Mum a parcel, what address do I put on it?",
        "Based on Tim's collections, what is a shop that he would enjoy?",
        "Last week, what did Ivone say about it?",
        "When I got home, where was she?",
        "remind me " + "what Ana said " * 40,
        "Alright, the plan is in.\n\nThanks for the dates, could you tell me what is next for the trip?",
        "I just ran the first model and it is a disaster. What should be done next with the thesis?",
        "What did we plant in May, and what last week?",
        "My phone number",
        "Passport number",
        "Happy birthday",
        "Her husband",
        "Call mum",
        "Doctor Who",
        "I forgot where",
        "Ana didn't tell me who",
        "Until when",
        "Nobody knows who",
        "My favourite band is The Who",
        "Good morning, what did she say?",
        "On Monday what did she say",
        "Actually, what did she say about the rent?",
        "Now, where is he?",
        "Perfect, when does it start?",
        "My bad, what was it?",
        "Monday, what did she do?",
        "Siri, where did I leave it?",
        "Ana, what time is it?",
        "My sister called, what did she want?",
        "The boiler broke, who fixed it?",
        "The keys are gone, who has them?",
        "The other day, what did they tell me?",
        "Ana's car, when did she buy it?",
        "My back, what can I do when it rains?",
        "My wedding, who couldn't make it?",
        "Who'd be able to help Ana move?",
        "Who'd borrowed my drill?",
        "Did Ana thank you?",
        "Who said thank you?",
        "How do you spell please",
        "Does Ana know who I mean?",
        "git push -u origin",
        "abt@example.com password",
        "which u-bahn do I take",
        "Was ist meine plz",
        "When is it my turn to cook?",
        "When is it Christmas in Russia?",
        "Monday: what did I eat for lunch?",
        "Ana's party: what wine did I bring?",
        "I am allergic to nuts; what restaurants are safe?",
        "Tom said I need to know how tax forms work",
        "So far what have I read?",
        "So many people, who came?",
        "And Then There Were None author",
        "Um was geht es in dem Buch?",
        "Please Please Me release date",
        "Tom said something funny, what was it?",
        "what Mum's letter from the bank said",
        "Did Tom ask what Ana's note said?",
        "Who told Tom what I was saying?",
        "Regarding the lease, when does it end?",
        "About last night, what happened?",
        "Wie viel hat der Apfelbaum im Oktober getragen?",
    ],
)
def test_other_questions_stay_as_they_are(text: str) -> None:
    assert plainly(text) == text
