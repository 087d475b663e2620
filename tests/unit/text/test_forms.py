"""Forms of a text: ids, normal form, keywords, passages, likeness, zones."""

from __future__ import annotations

import os
import time
import unicodedata
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import SettingsError
from orion_recall.settings import Settings
from orion_recall.text.ids import new_id
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights, keyword_weights_of
from orion_recall.text.normal import (
    content_words,
    is_question,
    memory_key,
    one_line,
    speaks_of_itself,
    storable,
    storable_json,
    text_hash,
    whole_words,
    words,
)
from orion_recall.text.passages import MOST_PASSAGES, PASSAGE, WINDOW, passages
from orion_recall.text.zones import time_zone
from tests.samples.markup import markup_in


def test_every_id_is_a_random_uuid_and_none_comes_twice() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {UUID(one).version for one in made} == {4}
    assert {UUID(one).variant for one in made} == {"specified in RFC 4122"}


def test_a_forked_process_makes_other_ids() -> None:
    new_id()  # some are drawn ahead now
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    assert len(theirs) == 36
    assert theirs not in [new_id() for _ in range(300)]


def test_the_setting_names_what_differs_and_the_rest_is_as_shipped():
    assert keyword_weights_of("k1=1.2, b=0.5") == KeywordWeights(k1=1.2, b=0.5, length=32.0)
    assert keyword_weights_of("") == SHIPPED
    assert keyword_weights_of(SHIPPED) is SHIPPED
    assert (SHIPPED.name, KeywordWeights(k1=1.2).name) == ("", "k1=1.2,b=0.75,length=32")
    assert Settings.read(keyword_weights="k1=2").keyword_weights.k1 == 2.0


@pytest.mark.parametrize(
    "text", ["k2=1", "k1=fast", "k1=-1", "b=1.5", "b=corpus", "length=corpus", "length=0", "length=nan", "k1", "32"]
)
def test_what_makes_no_sense_is_refused(text: str):
    with pytest.raises(SettingsError, match="ORION_KEYWORD_WEIGHTS"):
        Settings.read(keyword_weights=text)


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
    assert words("… !?") == []


def test_a_script_without_spaces_gives_pairs_of_characters_and_one_alone_itself():
    assert words("crane 起重机 кран") == ["crane", "起重", "重机", "кран"]
    assert words("クーポンＳＵＭＭＥＲ、3号 ﾊﾞﾅﾅ") == ["クー", "ーポ", "ポン", "summer", "3", "号", "バナ", "ナナ"]
    assert words("กินข้าว")[:2] == ["กิ", "ิน"]
    assert words("서울에서 일해") == ["서울", "울에", "에서", "일해"]
    assert content_words("鍵 x の話") == ["鍵", "の話"]


def test_names_and_texts_are_told_apart_by_whole_words():
    assert whole_words("花岡商店、ＡＢＣ") == ["花岡商店", "abc"]
    assert text_hash("東京タワー") != text_hash("東京 京タ タワ ワー")


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
    assert not markup_in(line)
    hidden = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in PRINTED]
    assert hidden == []
    assert line == line.strip()


def test_one_line_keeps_the_words_and_ordinary_signs():
    assert one_line(" Ana:\tthe crane\n(42 t) — 起重机 ❤️ ") == "Ana: the crane (42 t) — 起重机 ❤️"
    assert one_line("a\u200bb\u00adc") == "abc"


@pytest.mark.parametrize(
    ("text", "asks"), [('She said: "When?"', True), ("どこですか？", True), ("", False), ("Where? Here.", False)]
)
def test_a_text_that_ends_as_a_question_is_one(text: str, asks: bool):
    assert is_question(text) == asks


@pytest.mark.parametrize(
    ("text", "itself"), [("That is my crane.", True), ("We’re late", True), ("", False), ("WWI ended", False)]
)
def test_a_text_in_the_first_person_speaks_of_itself(text: str, itself: bool):
    assert speaks_of_itself(text) == itself


SENTENCE = "The ferry to the small island leaves from the old pier at seven. "


WORDS = 13  # and a full stop


def test_a_text_that_the_model_sees_whole_has_no_passages():
    assert passages("") == ()
    assert passages("The kiln is cold.") == ()
    assert passages(SENTENCE * (WINDOW // (WORDS + 1))) == ()


def test_a_long_text_is_cut_where_sentences_end_and_passages_overlap():
    text = SENTENCE * 60
    spans = passages(text)
    assert len(spans) > 4
    assert spans[0].start == 0
    assert spans[-1].end == len(text.rstrip())
    for span in spans:
        assert text[span.start : span.end].startswith("The ferry")
        assert text[span.start : span.end].endswith("seven.")
        assert (span.end - span.start) / len(SENTENCE) * (WORDS + 1) <= PASSAGE
    for before, after in pairwise(spans):
        assert before.start < after.start < before.end < after.end


def test_the_head_takes_room():
    text = SENTENCE * 60
    assert len(passages(text, "a rather long title of a report " * 12)) > len(passages(text))
    assert passages(SENTENCE * 15, "Ruth, 3 May 2026: ") == ()
    assert passages(SENTENCE * 15, "title " * 100) != ()


def test_there_are_so_many_passages_at_most():
    assert len(passages(SENTENCE * 5_000)) == MOST_PASSAGES


@pytest.mark.parametrize(
    "text", ["x" * 5_000, "島の港" * 900, "no stop " * 900, "?!" * 2_000, "\n" * 900 + "a b " * 900]
)
def test_a_text_without_sentences_is_cut_all_the_same(text: str):
    spans = passages(text)
    assert 1 < len(spans) <= MOST_PASSAGES
    assert max(span.end - span.start for span in spans) < 1700


def test_a_text_of_any_length_is_cut_quickly():
    began = time.process_time()
    for text in ("a." * 50_000, "word " * 20_000, "(" * 100_000, " " * 100_000):
        passages(text)
    assert time.process_time() - began < 20


@given(st.text(max_size=3_000), st.text(max_size=60))
def test_passages_cover_the_text_in_order(text: str, head: str):
    spans = passages(text, head)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    for before, after in pairwise(spans):
        assert before.start < after.start <= before.end or not text[before.end : after.start].strip()
        assert before.end < after.end
    if spans and len(spans) < MOST_PASSAGES:
        rest = text[: spans[0].start] + text[spans[-1].end :]
        assert not rest.strip()


NOON = datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("Europe/Berlin", 2), ("+05:30", 5.5), ("-0800", -8), ("UTC+2", 2), ("GMT-3", -3)],
)
def test_zones_have_names_and_offsets(name: str, hours: float):
    assert NOON.replace(tzinfo=time_zone(name)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "Europe", "+25:00", "/etc/passwd", "a\0b"])
def test_anything_else_is_refused(name: str):
    with pytest.raises(ValueError, match="IANA name"):
        time_zone(name)
