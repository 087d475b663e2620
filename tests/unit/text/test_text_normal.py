from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.text.normal import (
    STOP_WORDS,
    content_words,
    is_question,
    memory_key,
    one_line,
    speaks_of_itself,
    storable,
    storable_json,
    text_hash,
    words,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# Signs that are in the format category and are printed all the same, before the digits they belong to.
PRINTED = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")


def test_words_are_folded_and_keep_digits_and_inner_apostrophes():
    assert words("Ana's 2nd crane_gearbox, ＡＢＣ Straße — don’t!") == [
        "ana's", "2nd", "crane", "gearbox", "abc", "strasse", "don’t",
    ]  # fmt: skip
    assert words("crane 起重机 кран") == ["crane", "起重机", "кран"]
    assert words("… !?") == []


@given(st.text())
def test_the_short_way_for_ascii_gives_the_same_words(text: str):
    ascii_text = text.encode("ascii", "ignore").decode()
    assert words(ascii_text) == [word for word in words(f"{ascii_text} é") if word != "é"]


def test_words_of_a_long_run_of_combining_marks_do_not_take_for_ever():
    started = time.process_time()
    assert words("a" + "\u0301\u0327" * 50_000 + " crane")[-1] == "crane"
    assert time.process_time() - started < 20


def test_content_words_leave_out_stop_words_and_single_letters_but_not_digits():
    assert content_words("What did Ana do with a crane in plan B, year 7?") == ["ana", "crane", "plan", "year", "7"]


def test_stop_words_are_words_as_the_text_has_them():
    assert {word for word in STOP_WORDS if words(word) != [word]} == set()


def test_a_key_is_the_same_for_ever():
    assert memory_key("default", "mem-17") == 5689005092335922245


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_no_two_memories_share_a_key(tenant: str, name: str, other_tenant: str, other_name: str):
    same = (tenant, name) == (other_tenant, other_name)
    pairs = [
        ((tenant, name), (other_tenant, other_name), same),
        ((f"{tenant}\x1f{name}", other_name), (tenant, f"{name}\x1f{other_name}"), False),
    ]
    for one, other, expected in pairs:
        keys = [memory_key(*(storable(part) for part in pair)) for pair in (one, other)]
        if storable("".join((*one, *other))) == "".join((*one, *other)):
            assert (keys[0] == keys[1]) == expected


def test_what_postgres_cannot_hold_becomes_the_replacement_character():
    assert storable("a\x00b\ud800c\U0001f600") == "a\ufffdb\ufffdc\U0001f600"
    assert storable_json({"a\x00": ["\udfff", {"n": 1, "x": None}]}) == {"a\ufffd": ["\ufffd", {"n": 1, "x": None}]}


@given(JSON)
def test_a_storable_value_can_be_encoded_and_is_left_alone(value: object):
    once = storable_json(value)
    repr(once).encode()
    assert storable_json(once) == once


@given(st.lists(st.text("abcdefgh", min_size=1), min_size=1))
def test_texts_that_differ_in_case_spacing_or_punctuation_have_one_hash(parts: list[str]):
    plain = " ".join(parts)
    assert text_hash(plain) == text_hash("  " + ",\n".join(part.upper() for part in parts) + "!")
    assert text_hash(plain) != text_hash(f"{plain} more")


def test_texts_without_words_are_told_apart():
    assert text_hash("👍") != text_hash("👎")
    assert text_hash("👍 👍") == text_hash(" 👍\n👍 ")
    assert text_hash("?") != text_hash("")


HOSTILE = [
    "a\nb", "a\r\nb", "a\u2028b", "a\u2029b", "a\x85b", "a\x0bb", "a\x0cb", "a\x1cb", "a\u202eb", "a\u2066b\u2069",
    "a\u061cb", "a\u180eb", "a\U000e0041b", "a\U000e0101b", "a\ufe01b", "a\x1b[31mb", "a\x00b", "a\u200db",
    "<|im_start|>system", "</s>[INST]", "{{ config }}", "{% raw %}", "```python", "- [2026-03-01 vector x] b",
    "| a | b |", "a\ufeffb",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_becomes_one_plain_line(text: str):
    check_plain(one_line(text))


@given(st.text(st.characters(codec=None) | st.sampled_from("\n\u2028\u202e<>[]{}|`\x1b"), max_size=60))
def test_any_text_becomes_one_plain_line(text: str):
    line = one_line(text)
    check_plain(line)
    assert one_line(line) == line
    assert "  " not in line


def check_plain(line: str) -> None:
    assert len(line.splitlines()) <= 1
    assert not set(line) & set("<>`{}|[]")
    hidden = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in PRINTED]
    assert hidden == []
    assert line == line.strip()


def test_one_line_keeps_the_words_and_ordinary_signs():
    assert one_line(" Ana:\tthe crane\n(42 t) — 起重机 ❤️ ") == "Ana: the crane (42 t) — 起重机 ❤️"
    assert one_line("a\u200bb\u00adc") == "abc"


@pytest.mark.parametrize("text", ["Where is it?", 'She said: "When?"', "Really?? ", "どこですか？", "(is it?)"])
def test_a_text_that_ends_as_a_question_is_one(text: str):
    assert is_question(text)


@pytest.mark.parametrize("text", ["", "It is here.", "Where? Here.", "What a day!"])
def test_other_texts_are_no_questions(text: str):
    assert not is_question(text)


@pytest.mark.parametrize("text", ["I went home", "That is my crane.", "We’re late", "they gave it to us"])
def test_a_text_in_the_first_person_speaks_of_itself(text: str):
    assert speaks_of_itself(text)


@pytest.mark.parametrize("text", ["", "She went home", "The myrtle is in the mews.", "WWI ended"])
def test_a_text_about_others_does_not(text: str):
    assert not speaks_of_itself(text)
