from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.text.passages import MOST_PASSAGES, PASSAGE, WINDOW, passages

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


def test_a_line_ends_a_sentence_too():
    text = "a point of the list that says a little more than the one before it\n" * 60
    assert all(text[span.end : span.end + 1] in ("\n", "") for span in passages(text))


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
