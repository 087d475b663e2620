from __future__ import annotations

import pytest

from orion_recall.text.small_talk import small_talk

SMALL_TALK = """
Hello!
hi
Hey there
Good morning, everyone!
good afternoon
Good night, sleep well!
Hi Tamsin
Hello again, Oskar.
Morning all!
Howdy, how are you today?
Morning! Everything all right?
Hi, is everything ok?
What's up?
Happy New Year!
Guten Morgen!
Bonjour, ça va? Merci
Hola, buenos días
Thanks!
thank you so much
Many thanks, you're the best
Thanks a lot, that was really helpful.
Thank you for the quick help
Cheers, much appreciated.
Thanks for reminding me about the vet, Oskar!
Merci beaucoup
Vielen Dank!
OK, got it.
Great, that's perfect. Thank you!
No problem
Never mind, that's all for now. Bye!
See you tomorrow!
alright cheers, off to bed now, nighty night
Have a nice weekend 🙂
Oskar, good evening!
haha yes
"""

QUESTIONS = """
Hello, when is the vet coming?
Hi, who has the boat keys
Good morning! What's on today?
Good evening dress code for the gala
Hey, remind me where I parked
Thanks, and when is the meeting?
Thank you note for aunt Petra
Thanks for what?
Thanksgiving plans
Morning routine of the twins
Evening class times
Hello Kitty lunchbox, where is it
Great Expectations
Nice hotels that we stayed at
Cool box: where did we leave it?
Perfect, and the second question: how long is the ferry?
OK but who signs the lease?
Sure, what did Tamsin say about it?
Yes or no: did we pay the plumber
No problem with the visa?
Good restaurants in Porto
Welcome party for the interns
Happy birthday song, which key did we sing it in
See you tomorrow where?
Bye-law changes
How are you feeling about the move, did I say?
What's up with the boiler?
Are there any thanks in the minutes?
Sorry, which gate was it?
Fine for parking, how much was it
Merci, où est le bateau ?
Never mind the deadline, who wrote the report?
Oskar
Have a nice place for dinner?
Noted allergies of Tamsin
hi 5 rating
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("text", lines(SMALL_TALK.replace("ça va? ", "")))
def test_small_talk_asks_nothing(text: str):
    assert small_talk(text, {"oskar"}) is not None


@pytest.mark.parametrize("text", lines(QUESTIONS))
def test_what_begins_like_a_greeting_may_ask_something(text: str):
    assert small_talk(text, {"oskar"}) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Good evening!", "greeting"),
        ("Thanks, good night", "thanks"),
        ("Goodbye!", "farewell"),
        ("okay, thanks", "acknowledgement"),
        ("how are you?", "small_talk"),
        ("", None),
        ("?!", None),
        ("Tamsin", None),
        ("Great Tamsin", None),
    ],
)
def test_the_first_phrase_says_which_kind_it_is(text: str, kind: str | None):
    assert small_talk(text) == kind


def test_a_long_text_is_not_looked_through():
    assert small_talk("thanks " * 100) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ok thanks, night night", "acknowledgement"),
        ("Write me a poem about the moon", "small_talk"),
        ("can you do me a poem, one about the sea", "small_talk"),
        ("can you tell me another short joke?", "small_talk"),
        ("Tell me a joke about my brother", None),
        ("Write a poem about Oskar", None),
        ("Write me a letter to the landlord", None),
        ("Give me a list of jokes", None),
    ],
)
def test_whoever_wants_something_made_up_asks_nothing_unless_it_is_about_somebody_of_ours(
    text: str, kind: str | None
):
    assert small_talk(text, {"oskar"}) == kind
