from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.select import Caps, select
from orion_recall.recall.bundle.selection import Selection
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import SOURCE_NAMES, SourceName
from tests.samples.recall_fakes import HEAD, NOW, scored

WIDE = Caps(
    source_top_k=dict.fromkeys(SOURCE_NAMES, 100),
    max_per_source=100,
    max_total_items=100,
    budget_tokens=100_000,
    snippet_tokens=48,
    over_budget="skip",
)
NASTY = st.lists(
    st.sampled_from(
        [
            "crane", " the gearbox", "\n", "\r\n\r\n", "👍🏽", "👩‍👩‍👧", "起重机", "кран", "<|endoftext|>", "?!",
            "<|im_start|>", "...", "((-", "¦!;", "\u2028", "\u202e", "\x00", "a" * 50, "é", "e\u0301",
            "\ud800", "}\n\n", "  ", "\t", "=(", "…",
        ]
    )
    | st.text(max_size=6),
    max_size=40,
).map("".join)  # fmt: skip


def ids(selection: Selection) -> list[str]:
    return [item.scored.memory.id for item in selection.items]


def many(count: int, **fields: Any) -> list[ScoredCandidate]:
    return [scored(f"m{number}", f"memory {number}", ts=NOW, **fields) for number in range(count)]


def test_everything_is_kept_in_order_when_it_fits(tokens: TokenCounter):
    selection = select(many(5), frozenset(), WIDE, tokens)
    assert ids(selection) == ["m0", "m1", "m2", "m3", "m4"]
    assert selection.dropped == {}
    assert selection.items[0].line == "- [2026-03-01 vector m0] memory 0"
    assert selection.items[0].snippet == "memory 0"
    assert selection.tokens == tokens.count("\n".join(item.line for item in selection.items))


def test_the_total_cap_is_applied_after_sorting(tokens: TokenCounter):
    selection = select(many(5), frozenset(), replace(WIDE, max_total_items=2), tokens)
    assert ids(selection) == ["m0", "m1"]
    assert selection.dropped == {"max_total_items": 3}


def test_a_cap_counts_against_the_source_that_ranked_the_item_best(tokens: TokenCounter):
    best: tuple[SourceName, ...] = ("vector", "vector", "rdf", "vector", "rdf", "lexical")
    ranked = [scored(f"m{place}", source=source) for place, source in enumerate(best)]
    for item in ranked:
        item.candidate.ranks.update({name: 9 for name in SOURCE_NAMES if name not in item.candidate.ranks})
    selection = select(ranked, frozenset(), replace(WIDE, max_per_source=1), tokens)
    assert ids(selection) == ["m0", "m2", "m5"]
    assert selection.dropped == {"max_per_source": 3}


def test_a_sources_top_k_counts_its_own_ranked_items_kept_or_not(tokens: TokenCounter):
    caps = replace(WIDE, source_top_k=dict.fromkeys(SOURCE_NAMES, 2), max_total_items=1)
    selection = select(many(4), frozenset(), caps, tokens)
    assert selection.dropped == {"max_total_items": 1, "source_top_k": 2}


def test_an_item_that_does_not_fit_is_skipped_for_one_that_does(tokens: TokenCounter):
    ranked = [scored("long", "heavy words " * 60), scored("short", "yes")]
    budget = tokens.count("- [undated vector short] yes")
    selection = select(ranked, frozenset(), replace(WIDE, budget_tokens=budget), tokens)
    assert ids(selection) == ["short"]
    assert selection.dropped == {"token_budget": 1}
    assert selection.tokens == budget


def test_a_profile_may_stop_at_the_first_item_that_does_not_fit(tokens: TokenCounter):
    ranked = [scored("long", "heavy words " * 60), scored("short", "yes"), scored("other", "no")]
    budget = tokens.count("- [undated vector short] yes")
    selection = select(ranked, frozenset(), replace(WIDE, budget_tokens=budget, over_budget="stop"), tokens)
    assert ids(selection) == []
    assert selection.dropped == {"token_budget": 3}


def test_lines_share_the_budget_to_the_last_token(tokens: TokenCounter):
    whole = select(many(3), frozenset(), WIDE, tokens)
    exact = select(many(3), frozenset(), replace(WIDE, budget_tokens=whole.tokens), tokens)
    assert ids(exact) == ["m0", "m1", "m2"]
    short = select(many(3), frozenset(), replace(WIDE, budget_tokens=whole.tokens - 1), tokens)
    assert ids(short) == ["m0", "m1"]


def test_a_long_memory_is_cut_to_its_heart_rather_than_left_out(tokens: TokenCounter):
    filler = "some other words " * 100
    text = f"{filler} the crane needs a gearbox {filler}"
    selection = select(
        [scored("a", text)], frozenset({"crane", "gearbox"}), replace(WIDE, budget_tokens=40), tokens
    )
    assert ids(selection) == ["a"]
    assert "the crane needs a gearbox" in selection.items[0].snippet
    assert selection.tokens <= 40


@pytest.mark.parametrize("budget", [1, 5, 10])
def test_when_nothing_fits_there_are_no_items(tokens: TokenCounter, budget: int):
    selection = select(many(3), frozenset(), replace(WIDE, budget_tokens=budget), tokens)
    assert selection.items == ()
    assert selection.tokens == 0
    assert selection.dropped == {"token_budget": 3}


def test_nothing_ranked_is_nothing_selected(tokens: TokenCounter):
    assert select([], frozenset(), WIDE, tokens) == Selection(items=(), tokens=0, dropped={})


@settings(max_examples=200)
@given(
    texts=st.lists(NASTY, max_size=8),
    budget=st.integers(1, 300),
    snippet_tokens=st.integers(8, 64),
    max_total_items=st.integers(1, 8),
    max_per_source=st.integers(1, 8),
)
@example(texts=["?!"], budget=12, snippet_tokens=8, max_total_items=1, max_per_source=1)
@example(texts=["a^", "*:;"], budget=24, snippet_tokens=8, max_total_items=2, max_per_source=2)
def test_the_budget_is_a_ceiling_and_everything_dropped_is_counted(
    tokens: TokenCounter,
    texts: list[str],
    budget: int,
    snippet_tokens: int,
    max_total_items: int,
    max_per_source: int,
):
    caps = replace(
        WIDE,
        budget_tokens=budget,
        snippet_tokens=snippet_tokens,
        max_total_items=max_total_items,
        max_per_source=max_per_source,
    )
    sources = [SOURCE_NAMES[place % len(SOURCE_NAMES)] for place in range(len(texts))]
    ranked = [
        scored(f"m{place}", text, source=source)
        for place, (text, source) in enumerate(zip(texts, sources, strict=True))
    ]
    selection = select(ranked, frozenset({"crane", "gearbox"}), caps, tokens)
    rendered = "\n".join(item.line for item in selection.items)
    assert tokens.count(rendered) <= selection.tokens <= budget
    assert len(selection.items) + sum(selection.dropped.values()) == len(ranked)
    assert len(selection.items) <= max_total_items
    assert len(rendered.splitlines()) == len(selection.items)
    assert all(
        re.match(HEAD, f"{item.line} ") and len(re.findall(HEAD, item.line)) <= 1 for item in selection.items
    )
    assert ids(selection) == [name for name in (item.memory.id for item in ranked) if name in ids(selection)]


@given(texts=st.lists(NASTY, max_size=8), budget=st.integers(1, 200), top_k=st.integers(0, 4), stops=st.booleans())
def test_every_ranked_item_is_kept_or_has_one_reason(
    tokens: TokenCounter, texts: list[str], budget: int, top_k: int, stops: bool
):
    caps = replace(
        WIDE,
        budget_tokens=budget,
        source_top_k=dict.fromkeys(SOURCE_NAMES, top_k),
        over_budget="stop" if stops else "skip",
    )
    ranked = [scored(f"m{place}", text) for place, text in enumerate(texts)]
    selection = select(ranked, frozenset(), caps, tokens)
    kept = {item.scored.candidate.key for item in selection.items}
    assert kept.isdisjoint(selection.left_out)
    assert kept | selection.left_out.keys() == {item.candidate.key for item in ranked}
    assert dict(Counter(selection.left_out.values())) == selection.dropped
    if stops and "token_budget" in selection.dropped:
        reasons = [selection.left_out.get(item.candidate.key) for item in ranked]
        assert set(reasons[reasons.index("token_budget") :]) == {"token_budget"}


def test_the_last_lines_missing_newline_cannot_break_the_ceiling(tokens: TokenCounter):
    """Some endings are one token more without the newline that follows them."""
    ending = next(
        ending for ending in ("?!", "((-", "¦!;", "=(", "*:;", "(中?;", "‹…(", "^*:;", "!;")
        if tokens.count(f"- [undated vector m] {ending}") > tokens.count(f"- [undated vector m] {ending}\n")
    )  # fmt: skip
    line = f"- [undated vector m] {ending}"
    budget = tokens.count(f"{line}\n")
    selection = select([scored("m", ending)], frozenset(), replace(WIDE, budget_tokens=budget), tokens)
    assert selection.items == ()
    selection = select([scored("m", ending)], frozenset(), replace(WIDE, budget_tokens=tokens.count(line)), tokens)
    assert [item.line for item in selection.items] == [line]
