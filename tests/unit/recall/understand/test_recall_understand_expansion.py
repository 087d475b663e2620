from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.understand.expansion import expansions
from orion_recall.text.normal import STOP_WORDS, words

NAMES = ["Melanie Jones", "Theodore", "Andrea", "Hermione", "Caroline", "李 Wei"]


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("What did Ana buy?", ["bought"]),
        ("bought it", ["buy"]),
        ("she went", ["go", "gone"]),
        ("children", ["child"]),
    ],
)
def test_the_other_forms_of_an_irregular_verb_are_added(text: str, forms: list[str]):
    assert expansions(text, [], words(text)) == forms


def test_verbs_that_say_nothing_are_not_expanded():
    assert expansions("What was done, have you been?", [], set()) == []


@pytest.mark.parametrize("asked", ["Mel", "Melanie", "melanie jones", "Melanie's"])
def test_a_first_name_or_a_beginning_of_it_brings_the_whole_name(asked: str):
    found = {*words(asked), *expansions(f"Where is {asked} now?", NAMES, words(asked))}
    assert {"melanie", "jones"} <= found


@pytest.mark.parametrize("asked", ["Me", "Jones", "lanie", "the and her", "the theatre"])
def test_too_short_a_beginning_a_last_name_or_a_stop_word_brings_no_name(asked: str):
    assert expansions(asked, NAMES, words(asked)) == []


@given(st.text(max_size=80), st.lists(st.sampled_from([*NAMES, "", "?"])), st.booleans())
def test_what_is_added_is_new_said_once_and_in_a_fixed_order(text: str, names: list[str], some: bool):
    terms = frozenset(words(text)) if some else frozenset[str]()
    added = expansions(text, names, terms)
    assert len(set(added)) == len(added)
    assert not terms & set(added)
    assert added == expansions(text, list(reversed(names)), terms)


@given(st.lists(st.sampled_from(sorted(STOP_WORDS)), max_size=20))
def test_a_question_of_stop_words_alone_brings_no_names(asked: list[str]):
    parts = {part for name in NAMES for part in words(name)}
    assert not parts & set(expansions(" ".join(asked), NAMES, set()))
