from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.text import kept_words
from orion_recall.text.kept_words import word_set
from orion_recall.text.normal import words


@given(st.text(max_size=80), st.text(max_size=80))
def test_two_texts_share_as_many_of_the_set_as_they_share_words(one: str, other: str):
    assert len(word_set(one)) == len(set(words(one)))
    assert len(word_set(one) & word_set(other)) == len(set(words(one)) & set(words(other)))


def test_no_more_sets_are_kept_than_the_bound_and_none_of_a_long_text(monkeypatch: pytest.MonkeyPatch):
    kept: dict[int, frozenset[int]] = {}
    monkeypatch.setattr(kept_words, "_kept", kept)
    monkeypatch.setattr(kept_words, "_MOST_KEPT", 3)

    for number in range(7):
        word_set(f"the pump is number {number}")
        assert len(kept) <= 3
    assert word_set("word " * 200) == word_set("word")

    assert len(kept) <= 3
    assert hash("word " * 200) not in kept
