from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.chains import MOST_STEPS, chains


@pytest.mark.parametrize(
    ("text", "seed", "vias"),
    [
        ("What is Ana's sister's employer?", "Ana", [("sister", "employer"), ("sister",)]),
        ("the employer of the sister of Ana", "Ana", [("sister", "employer")]),
        ("Who is the employer of Ana's sister?", "Ana", [("sister", "employer")]),
        ("Where does Ana's sister work?", "Ana", [("sister", "work"), ("sister work",), ("sister",)]),
        ("Where does the sister of Ana live?", "Ana", [("sister", "live"), ("sister",)]),
        ("Ana Miles’ boss", "Ana Miles", [("boss",)]),
        ("Ana Miles's boss", "Ana Miles", [("boss",)]),
        ("Who is Jean-Luc's boss?", "Jean-Luc", [("boss",)]),
        ("What is Ana's home town?", "Ana", [("home", "town"), ("home town",), ("home",)]),
        ("the founder of Fjord Labs", "Fjord Labs", [("founder",)]),
        ("Did you hear: Ana's old friend's brother?", "Ana", [("friend", "brother"), ("friend",)]),
        ("Is Bo here? What is Ana's job?", "Ana", [("job",)]),
    ],
)  # fmt: skip
def test_a_chain_begins_at_a_name_and_has_its_readings_longest_first(
    text: str, seed: str, vias: list[tuple[str, ...]]
):
    found = chains(text)
    assert {chain.seed for chain in found} == {seed}
    assert [chain.via for chain in found] == vias


@pytest.mark.parametrize(
    "text",
    ["", "What did Ana say?", "my sister's employer", "Ana's", "It's what Bo's", "Who's there?", "Let's go to Oslo",
     "the end of the year", "What is Ana? Boss of whom?"],
)  # fmt: skip
def test_other_questions_have_none(text: str):
    assert chains(text) == ()


SISTER_WORKS = (("sister", "work"), ("sister work",), ("sister",))


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("Who is my boss?", [("Bo Lind", ("boss",))]),
        ("Where does my sister work?", [("Bo Lind", via) for via in SISTER_WORKS]),
        ("Who conducts our choir?", [("Bo Lind", ("choir", "conducts"))]),
        ("the employer of my sister", [("Bo Lind", ("sister", "employer"))]),
        ("Who is my editor at Fjord Labs?", [("Bo Lind", ("editor",))]),
        ("my boss Ana's sister", [("Ana", ("sister",))]),
    ],
)  # fmt: skip
def test_my_is_said_of_the_one_who_asks(text: str, readings: list[tuple[str, tuple[str, ...]]]):
    assert [(chain.seed, chain.via) for chain in chains(text, "Bo Lind")] == readings


@pytest.mark.parametrize("text", ["Where is my bike?", "Where did I put my keys?", "my", "Is it mine?"])
def test_my_things_are_no_chains(text: str):
    assert chains(text, "Bo Lind") == ()


def test_a_verb_after_who_leads_back_from_what_it_is_done_to():
    assert [(chain.seed, chain.via) for chain in chains("Who owns Fjord Labs?")] == [("Fjord Labs", ("owns",))]
    assert chains("Who told Ana about it?") == ()
    assert chains("Who is Ana?") == ()


def test_the_words_that_say_it_are_told():
    assert chains("Where does the sister of Ana work?")[0].words == "sister of Ana work"
    assert chains("Ana's sister's employer, please")[0].words == "Ana's sister's employer"


def test_a_long_chain_is_cut():
    (chain,) = chains("Ana's boss's sister's friend's cousin's neighbour's dog")
    assert chain.via == ("boss", "sister", "friend", "cousin", "neighbour")
    assert len(chain.via) == MOST_STEPS


@given(st.text())
def test_every_text_is_read(text: str):
    assert all(0 < len(chain.via) <= MOST_STEPS and chain.seed for chain in chains(text))


def test_hostile_texts_take_no_time():
    began = time.process_time()
    for text in ("Ana's " * 100_000, "A" * 1_000_000, "of the " * 100_000 + "Ana", "''''" * 100_000):
        chains(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("text", "seed", "role"),
    [
        ("where do I live?", "Nora Quist", "home"),
        ("Where does Ana live now?", "Ana", "home"),
        ("And where does Ana Sol work?", "Ana Sol", "workplace"),
        ("whom do I report to?", "Nora Quist", "boss"),
        ("who does Ana work for?", "Ana", "employer"),
        ("who did I live with in Bergen?", "Nora Quist", "roommate"),
    ],
)
def test_a_clause_leads_from_its_subject_to_what_it_asks_for(text: str, seed: str, role: str) -> None:
    found = chains(text, "Nora Quist")
    assert [(one.seed, one.via) for one in found] == [(seed, (role,))]


@pytest.mark.parametrize(
    "text", ["where do we live?", "where do I sleep?", "who does the work?", "where does", "where do I"]
)
def test_a_clause_without_a_subject_or_a_known_verb_is_no_chain(text: str) -> None:
    assert chains(text, "Nora Quist") == ()


def test_whoever_asks_and_is_unknown_lives_nowhere() -> None:
    assert chains("where do I live?", None) == ()
