from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.snippet import line_tokens
from orion_recall.recall.bundle.snippet import snippet as snippet_of
from orion_recall.text.normal import stems

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


@pytest.mark.parametrize("negation", ["can't", "can’t", "not", "never", "no", "cannot", "without", "Don't"])
def test_a_cut_does_not_separate_a_negation_from_what_it_denies(tokens: TokenCounter, negation: str):
    text = f"{FILLER} harbour is off, {negation} leave the gearbox alone. {FILLER}"
    began: set[str] = set()
    for max_tokens in range(8, 40):
        found = snippet(text, frozenset({"leave", "gearbox"}), max_tokens, tokens)
        assert not found.startswith("… leave")
        began.add(found[:30])
    assert any(begin.startswith(f"… {negation} leave") for begin in began)


@pytest.mark.parametrize(
    "denied", ["don't really want to", "never, in all my years, would", "can't for the life of me", "not at all"]
)
def test_a_cut_keeps_the_negation_of_the_clause_that_it_is_in(tokens: TokenCounter, denied: str):
    text = f"{FILLER} harbour is off. You see, I {denied} leave the gearbox alone. {FILLER}"
    found = {snippet(text, frozenset({"leave", "gearb"}), max_tokens, tokens) for max_tokens in range(12, 40)}
    assert all(denied.split()[0].strip(",") in one for one in found if "leave the gearbox" in one)
    assert any(one.startswith(f"… {denied} leave") for one in found)


@pytest.mark.parametrize(
    "before",
    [
        "there was no wind. Now",
        "there was no wind, but",
        "he is not here, and",
        "no, in fact,",
        "I never know why. So",
    ],
)
def test_a_negation_of_another_clause_is_not_taken_along(tokens: TokenCounter, before: str):
    text = f"{FILLER} {before} we leave the gearbox alone. {FILLER}"
    found = {snippet(text, frozenset({"leave", "gearb"}), max_tokens, tokens) for max_tokens in range(8, 13)}
    begins = ("… we leave", "… leave", "… Now we leave", "… So we leave")
    assert any(one.startswith(begins) for one in found)
    assert not any(one.startswith(("… no ", "… not", "… never")) for one in found)


def test_many_negations_do_not_push_out_what_is_wanted(tokens: TokenCounter):
    text = f"{FILLER} {'no ' * 500}gearbox {FILLER}"
    assert "gearbox" in snippet(text, frozenset({"gearb"}), 24, tokens)


@pytest.mark.parametrize("announcing", ["is", "was", "are", "is a Mrs.", "is on the", "is at"])
def test_no_cut_right_behind_a_word_that_announces_what_follows(tokens: TokenCounter, announcing: str):
    text = f"{FILLER} the gearbox of crane {announcing} Kuipers {FILLER}"
    cut = 0
    for max_tokens in range(8, 48):
        found = snippet(text, frozenset({"gearbox", "crane"}), max_tokens, tokens)
        assert not found.removesuffix(" …").endswith((*announcing.split(), "of"))
        cut += found.endswith(("crane …", "gearbox …"))
    assert cut


def test_a_wanted_word_is_not_cut_off_as_announcing(tokens: TokenCounter):
    text = f"{FILLER} gearbox on {'x' * 2000}"
    found = {snippet(text, frozenset({"gearbox", "on"}), size, tokens) for size in range(8, 30)}
    assert any(one.endswith("gearbox on …") for one in found)


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


LONG = (
    "The week on the island, so that I have it written down. We came over with the early boat and the sea was"
    " flat. The landlady showed us the rooms; mine looked out on the goats. On the first evening we walked to"
    " the chapel and back, and the wind took my hat, which a child brought to the door next morning. The "
    "meter cupboard is behind the kitchen door, and the main fuse is the third from the left. Our neighbour "
    "Matteo rents out two kayaks for 15 an hour, life vests included. On Wednesday it rained and we played "
    "cards for dried beans. Lena won, as always, and has not stopped talking about it. The doctor comes over "
    "on Tuesdays only, for anything else one rings the pharmacy in the harbour. We ate too many figs. The "
    "boat back was late, and the captain sang for the whole way, which was the best part of it. Next year we "
    "want to stay two weeks and bring our own coffee."
)


def test_whole_sentences_are_shown_where_they_fit(tokens: TokenCounter):
    found = snippet(LONG, frozenset({"kayaks"}), 40, tokens)
    assert found.startswith("… Our neighbour Matteo")
    assert found.endswith("dried beans. …")


def test_a_hostile_text_takes_no_longer_than_its_length(tokens: TokenCounter):
    for text in ("crane. " * 4000, "crane 1! " * 4000, "." * 20_000, "Crane 9 " * 4000):
        began = time.process_time()
        snippet_of(text, stems({"crane"}), 48, tokens, True)
        assert time.process_time() - began < 10


def test_a_window_has_more_of_what_follows_the_words_than_of_what_precedes_them(tokens: TokenCounter):
    before, after = (" ".join(f"{side}{number}" for number in range(60)) for side in ("before", "after"))
    found = snippet(
        f"{before} I'd recommend for the gearbox {after}", frozenset({"recommend", "gearbox"}), 40, tokens
    )
    assert "recommend" in found
    assert found.count("after") > found.count("before") > 0
