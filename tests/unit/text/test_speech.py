"""What a text is: small talk, a report of what was said, titles of people."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.text.names import names_in, title_names
from orion_recall.text.reported import reports
from orion_recall.text.small_talk import small_talk


@pytest.mark.parametrize(
    "text",
    [
        "Hana said that the kiln is cold.",
        "Hana has just told me about it.",
        "I rang Hana about the clay. It is late; she says it comes on Tuesday.",
        "According to Hana it is fine.",
        "A mail from Hana: the kiln is cold.",
        "Hana's advice was to wait.",
        '"Wait", said Hana.',
    ],
)  # fmt: skip
def test_what_a_person_said_is_reported(text: str):
    assert reports(text, ["hana"])


@pytest.mark.parametrize(
    "text",
    ["Hana works here.", "I told Hana about it.", "Ben said it to Hana.", "Shana said so.",
     "I said so before Hana.", "Took Hana's van to the garage. Back on Monday, they said."],
)  # fmt: skip
def test_what_others_said_is_not(text: str):
    assert not reports(text, ["hana"])


def test_hostile_texts_take_no_time():
    began = time.process_time()
    for text in ("Hana " * 5_000, "Hana, " + "a " * 5_000, "hana's " * 5_000, "she " * 5_000 + "hana"):
        reports(text, ["hana"])
    assert time.process_time() - began < 20


SMALL_TALK = """
Hello!
Good morning, everyone!
Good night, sleep well!
Hi Tamsin
Morning! Everything all right?
Happy New Year!
Bonjour, merci
Thanks a lot, that was really helpful.
Thank you for the quick help
Thanks for reminding me about the vet, Oskar!
Vielen Dank!
OK, got it.
Never mind, that's all for now. Bye!
alright cheers, off to bed now, nighty night
Have a nice weekend 🙂
Oskar, good evening!
"""
QUESTIONS = """
Hello, when is the vet coming?
Hi, who has the boat keys
Hey, remind me where I parked
Thank you note for aunt Petra
Thanks for what?
Morning routine of the twins
Hello Kitty lunchbox, where is it
Great Expectations
Cool box: where did we leave it?
Sure, what did Tamsin say about it?
No problem with the visa?
Happy birthday song, which key did we sing it in
Bye-law changes
What's up with the boiler?
Oskar
hi 5 rating
"""


@pytest.mark.parametrize("text", SMALL_TALK.strip().splitlines())
def test_small_talk_asks_nothing(text: str):
    assert small_talk(text, {"oskar"}) is not None


@pytest.mark.parametrize("text", QUESTIONS.strip().splitlines())
def test_what_begins_like_a_greeting_may_ask_something(text: str):
    assert small_talk(text, {"oskar"}) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Good evening!", "greeting"),
        ("Thanks, good night", "thanks"),
        ("okay, thanks", "acknowledgement"),
        ("how are you?", "small_talk"),
        ("", None),
        ("Tamsin", None),
        ("Great Tamsin", None),
    ],
)
def test_the_first_phrase_says_which_kind_it_is(text: str, kind: str | None):
    assert small_talk(text) == kind


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Fjord Labs", ("fjord labs",)),
        ("Mercury (planet)", ("mercury planet", "mercury")),
        ("one two three four five six", ("one two three four five six",)),
        ("one two three four five six seven", ()),
        ("?!", ()),
        ("Straße", ("strasse",)),
    ],
)
def test_a_title_is_called_as_it_stands_and_without_brackets_at_its_end(title: str, names: tuple[str, ...]):
    assert title_names(title) == names


@pytest.mark.parametrize("title", ["Fjord Labs", "machine learning", "Ana's Boat", "ＡＢＣ Straße"])
def test_a_text_names_a_title_wherever_that_stands_in_it(title: str):
    for text in (title, f"She wrote of {title}.", f"It was {title}'s end, and that of others."):
        assert title_names(title)[0] in names_in(text), text


def test_small_words_alone_and_runs_that_end_in_a_stop_word_are_no_names():
    names = names_in("the boat of Ana was mended by her sister in May")
    assert not {"boat", "mended", "of ana", "the boat", "ana was", "sister in"} & names
    assert {"ana", "may", "boat of ana"} <= names


def test_a_possessive_is_read_with_and_without_its_ending():
    assert {"umbra", "umbra's"} <= names_in("Umbra's crane")


@given(st.text())
def test_every_text_gives_short_names_without_empty_ones(text: str):
    assert all(0 < len(name.split()) <= 6 for name in names_in(text))


def test_a_long_text_is_read_up_to_a_bound():
    began = time.process_time()
    names = names_in("Umbra Works built the harbour crane. " * 30_000 + "Bergen")
    assert "bergen" not in names
    assert len(names_in("é" + "\u0301" * 1_000_000)) <= 1
    assert time.process_time() - began < 20
