from __future__ import annotations

import time as clock
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.said_by import SaidBy, said_by
from orion_recall.values import NO_TIME
from orion_recall.when.times import times

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
SPEAKERS = frozenset(["Iris", "Bram Visser", "Bram Okafor", "Hana", "Assistant"])


def read(text: str, *, asker: str | None = "Iris", speakers: frozenset[str] = SPEAKERS) -> SaidBy | None:
    return said_by(text, times(text, NOW), speakers=speakers, asker=asker)


@pytest.mark.parametrize(
    ("text", "speakers", "topic", "intervals"),
    [
        ("What did Hana say last?", ["Hana"], "", []),
        ("What did Hana say yesterday?", ["Hana"], "", ["yesterday"]),
        ("What did Hana say about the kiln?", ["Hana"], "the kiln", []),
        ("What did Hana say about the kiln last week?", ["Hana"], "the kiln", ["last week"]),
        ("What did Hana say on Monday about the kiln?", ["Hana"], "the kiln", ["Monday"]),
        ("What did Hana say about the delivery on Friday?", ["Hana"], "the delivery on Friday", []),
        ("What has Hana written since Sunday?", ["Hana"], "", ["since Sunday"]),
        ("What did hana promise me?", ["Hana"], "", []),
        ("Has Hana mentioned anything about the kiln?", ["Hana"], "the kiln", []),
        ("Did Hana tell us anything regarding the glaze today?", ["Hana"], "the glaze", ["today"]),
        ("What advice did Hana give me on glazes?", ["Hana"], "glazes", []),
        ("Remind me what Hana wrote about the kiln", ["Hana"], "the kiln", []),
        ("What was Hana's advice on the clay?", ["Hana"], "the clay", []),
        ("Anything from Hana about the rent?", ["Hana"], "the rent", []),
        ("What did Bram say about the rent?", ["Bram Okafor", "Bram Visser"], "the rent", []),
        ("What did Bram Visser say about the rent?", ["Bram Visser"], "the rent", []),
        ("What did Hana and Bram Visser say about the rent?", ["Hana", "Bram Visser"], "the rent", []),
        ("What did I say about the rent?", ["Iris"], "the rent", []),
        ("What did I promise Hana?", ["Iris"], "Hana", []),
        ("What did the assistant recommend for the glaze?", ["Assistant"], "the glaze", []),
        ("What did you suggest for Sunday?", ["Assistant"], "", ["Sunday"]),
    ],
)  # fmt: skip
def test_who_said_it_about_what_and_when(text: str, speakers: list[str], topic: str, intervals: list[str]):
    said = read(text)
    assert said is not None
    assert said.is_strict
    assert list(said.speakers) == speakers
    assert (said.topic, [interval.words for interval in said.intervals]) == (topic, intervals)


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("Which glaze did Hana recommend?", "Hana"),
        ("When did Hana mention the kiln?", "Hana"),
        ("What did Hana tell me to bring?", "Hana"),
        ("Where did I say I left the key?", "Iris"),
        ("How did you suggest firing the kiln?", "Assistant"),
    ],
)  # fmt: skip
def test_questions_for_something_in_what_was_said_only_prefer_the_speaker(text: str, speaker: str):
    said = read(text)
    assert said is not None
    assert (said.is_strict, said.speakers) == (False, (speaker,))


@pytest.mark.parametrize(
    "text",
    ["", "What did she say?", "Who told me about the kiln?", "Where does Hana work?", "What do I have to ask Hana?",
     "How should I tell Hana?", "What would you suggest?", "What did Hana paint?",
     "Did the mayor of the state win?", "Is everything from Hana here?", "Did everything from Hana arrive?"],
)  # fmt: skip
def test_other_questions_ask_for_nobodys_words(text: str):
    assert read(text) is None


def test_without_a_known_asker_i_am_nobody():
    assert read("What did I say about the rent?", asker=None) is None


def test_a_first_name_that_one_speaker_bears_finds_reports_by_either_name():
    said = read("What did Hana Sato say?", speakers=frozenset(["Hana Sato", "Iris"]))
    assert said is not None
    assert said.names == ("hana", "hana sato")


@given(st.text(alphabet=st.sampled_from("What did Hana say 'about, my the to on? From and"), max_size=120))
def test_every_text_is_read(text: str):
    said_by(text, NO_TIME, speakers=SPEAKERS, asker="Iris")


def test_hostile_texts_take_no_time():
    began = clock.process_time()
    for text in ("what did " * 50_000, "did the a " * 50_000, "Hana and " * 50_000, "did Hana and " * 50_000):
        read(text)
    assert clock.process_time() - began < 10


@pytest.mark.parametrize(
    "text", ["Who do I report to?", "Whom does Hana answer to now?", "Who do I write to at the museum?"]
)
def test_who_somebody_reports_to_is_nobodys_words(text: str):
    assert read(text) is None


def test_what_somebody_reports_to_another_is_what_they_say():
    assert (found := read("What did Hana report to the bank?")) is not None
    assert found.speakers == ("Hana",)


@pytest.mark.parametrize("name", ["Dr. Osei", "Dr Wanda Osei", "Wanda"])
def test_whose_words_are_asked_for_may_have_a_title(name: str):
    found = read(f"What did {name} say about the goats?", speakers=frozenset(["Dr. Wanda Osei", "Dr. Emil Brandt"]))
    assert found is not None
    assert (found.speakers, found.topic, found.is_strict) == (("Dr. Wanda Osei",), "the goats", True)
    assert {"wanda", "wanda osei"} <= set(found.names)
