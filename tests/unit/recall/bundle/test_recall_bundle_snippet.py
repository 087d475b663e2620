from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.snippet import line_tokens, stems
from orion_recall.recall.bundle.snippet import snippet as snippet_of

FILLER = " ".join(f"filler{number % 7}" for number in range(400))
WORDS = st.sampled_from(
    ["crane", "gearbox,", "harbour", "the", "and", "起重机", "👍", "Donaudampfschifffahrt", "x" * 60]
)


def snippet(text: str, terms: frozenset[str], max_tokens: int, tokens: TokenCounter) -> str:
    """The snippet for a question's words, which takes the tokens it says."""
    found, used = snippet_of(text, stems(terms), max_tokens, tokens)
    assert used == tokens.count(f" {found}\n") == line_tokens(found, tokens)
    return found


def test_a_text_that_fits_is_left_as_it_is(tokens: TokenCounter):
    text = "Bo: The harbour crane needs a new gearbox by Friday."
    assert snippet(text, frozenset({"crane"}), 48, tokens) == text
    assert snippet("", frozenset({"crane"}), 48, tokens) == ""


def test_the_window_of_a_long_text_stands_around_the_match(tokens: TokenCounter):
    text = f"{FILLER} the crane needs a gearbox {FILLER}"
    found = snippet(text, frozenset({"crane", "gearbox"}), 24, tokens)
    assert "the crane needs a gearbox" in found
    assert found.startswith("… filler")
    assert found.endswith(" …")
    assert tokens.count(found) <= 24


def test_the_beginning_is_shown_when_nothing_matches(tokens: TokenCounter):
    found = snippet(FILLER, frozenset({"crane"}), 24, tokens)
    assert found.startswith("filler0 filler1")
    assert found.endswith(" …")


def test_matches_at_either_end_are_reached(tokens: TokenCounter):
    first = snippet(f"Crane! {FILLER}", frozenset({"crane"}), 20, tokens)
    last = snippet(f"{FILLER} (crane)", frozenset({"crane"}), 20, tokens)
    assert first.startswith("Crane! ")
    assert not first.startswith("…")
    assert last.endswith("(crane)")


def test_the_densest_of_several_places_wins(tokens: TokenCounter):
    text = f"crane {FILLER} crane and gearbox and harbour {FILLER} gearbox"
    found = snippet(text, frozenset({"crane", "gearbox", "harbour"}), 24, tokens)
    assert "crane and gearbox and harbour" in found


def test_other_forms_and_possessives_of_a_word_match(tokens: TokenCounter):
    for term, said in (("repairing", "repaired"), ("ana's", "Ana"), ("ana", "Ana’s")):
        assert said in snippet(f"{FILLER} {said} {FILLER}", frozenset({term}), 24, tokens)


def test_one_endless_word_is_cut(tokens: TokenCounter):
    found = snippet("x" * 5000, frozenset({"crane"}), 16, tokens)
    assert 0 < tokens.count(found) <= 16


@given(st.lists(WORDS, max_size=300).map(" ".join), st.integers(8, 64))
@example("\ufffd" * 300, 8)
@example("起重机 crane 👍", 8)
@example("a\u0301" * 300, 8)
def test_a_snippet_fits_and_is_a_part_of_the_text(tokens: TokenCounter, text: str, max_tokens: int):
    found = snippet(text, frozenset({"crane", "gearbox"}), max_tokens, tokens)
    assert line_tokens(found, tokens) <= max_tokens
    assert found.removeprefix("… ").removesuffix(" …").removesuffix(" ").removesuffix("…") in text


@given(st.integers(0, 120), st.integers(0, 120), st.integers(12, 48))
def test_a_single_match_is_always_shown(tokens: TokenCounter, before: int, after: int, max_tokens: int):
    text = " ".join([*["filler"] * before, "gearbox", *["filler"] * after])
    assert "gearbox" in snippet(text, frozenset({"gearbox"}), max_tokens, tokens)
