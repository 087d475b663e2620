from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC
from typing import Any, Literal, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.lines import Shown
from orion_recall.recall.bundle.relative_dates import RelativeDates
from orion_recall.recall.bundle.select import Caps, select
from orion_recall.recall.bundle.selection import Selection
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import SOURCE_NAMES, RenderStyle, SourceName, SuccessionLink
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
    selection = select(ranked, frozenset(), replace(WIDE, max_per_source=1, max_total_items=3), tokens)
    assert ids(selection) == ["m0", "m2", "m5"]
    assert selection.dropped == {"max_per_source": 3}


def test_what_a_cap_left_out_takes_the_places_that_are_left_best_first(tokens: TokenCounter):
    sources: tuple[SourceName, ...] = ("vector", "vector", "vector", "rdf", "vector")
    ranked = [scored(f"m{place}", source=source) for place, source in enumerate(sources)]
    selection = select(ranked, frozenset(), replace(WIDE, max_per_source=1, max_total_items=3), tokens)
    assert ids(selection) == ["m0", "m1", "m3"]
    assert selection.dropped == {"max_per_source": 2}
    assert select(ranked, frozenset(), replace(WIDE, max_per_source=1), tokens).dropped == {}


@pytest.mark.parametrize("cap", ["max_per_source", "source_top_k"])
def test_what_a_cap_left_out_takes_the_tokens_that_are_left(tokens: TokenCounter, cap: str):
    limited: dict[str, Any] = {"max_per_source": 1, "source_top_k": dict.fromkeys(SOURCE_NAMES, 1)}
    caps = replace(WIDE, **{cap: limited[cap]})
    whole = select(many(3), frozenset(), WIDE, tokens)
    selection = select(many(3), frozenset(), replace(caps, budget_tokens=whole.tokens - 1), tokens)
    assert ids(selection) == ["m0", "m1"]
    assert selection.dropped == {cap: 1}
    assert select(many(3), frozenset(), replace(caps, budget_tokens=whole.tokens), tokens) == whole


@pytest.mark.parametrize(("over_budget", "kept"), [("skip", ["m0", "short"]), ("stop", ["m0"])])
def test_the_places_left_are_given_as_the_profile_says_of_what_does_not_fit(
    tokens: TokenCounter, over_budget: Literal["skip", "stop"], kept: list[str]
):
    ranked = [scored("m0", "yes"), scored("long", "heavy words " * 60), scored("short", "yes")]
    budget = tokens.count("- [undated vector m0] yes\n- [undated vector short] yes")
    caps = replace(WIDE, max_per_source=1, budget_tokens=budget, over_budget=over_budget)
    selection = select(ranked, frozenset(), caps, tokens)
    assert ids(selection) == kept
    assert set(selection.dropped) == {"max_per_source"}


def test_what_repeats_another_waits_until_others_had_their_place(tokens: TokenCounter):
    ranked = [
        scored("lamp", "Bought a green lamp in Ghent"),
        scored("again", "In Ghent I bought the lamp, a green one"),
        scored("chair", "Bought a chair from Pim"),
    ]
    caps = replace(WIDE, max_repetition=0.7, max_total_items=2)
    selection = select(ranked, frozenset({"bought"}), caps, tokens)
    assert ids(selection) == ["lamp", "chair"]
    assert selection.dropped == {"repetition": 1}
    assert ids(select(ranked, frozenset({"bought"}), replace(caps, max_total_items=3), tokens)) == [
        "lamp", "again", "chair",
    ]  # fmt: skip


@given(
    picked=st.lists(st.sampled_from(SOURCE_NAMES), max_size=12),
    max_per_source=st.integers(1, 4),
    top_k=st.integers(0, 4),
    max_total_items=st.integers(1, 12),
    budget=st.integers(20, 200),
)
def test_no_place_is_wasted_while_something_waits_that_fits(
    tokens: TokenCounter,
    picked: list[SourceName],
    max_per_source: int,
    top_k: int,
    max_total_items: int,
    budget: int,
):
    ranked = [scored(f"m{place:02}", "yes", source=source, ts=NOW) for place, source in enumerate(picked)]
    caps = replace(
        WIDE,
        source_top_k=dict.fromkeys(SOURCE_NAMES, top_k),
        max_per_source=max_per_source,
        max_total_items=max_total_items,
        budget_tokens=budget,
    )
    selection = select(ranked, frozenset(), caps, tokens)
    longest = max((tokens.count(f"- [2026-03-01 {source} m00] yes\n") for source in picked), default=0)
    assert len(selection.items) == max_total_items or selection.tokens > budget - longest or not selection.dropped


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


def test_dates_of_relative_times_are_inside_the_budget(tokens: TokenCounter):
    shown = Shown(dates=RelativeDates(zone=UTC, now=NOW))
    ranked = [scored("a", "we met yesterday", ts=NOW)]
    dated = select(ranked, frozenset(), WIDE, tokens, shown)
    assert dated.items[0].line == "- [2026-03-01 vector a] we met yesterday [28 February]"
    assert dated.items[0].snippet == "we met yesterday [28 February]"
    assert dated.tokens == tokens.count(dated.items[0].line)
    less = select(ranked, frozenset(), replace(WIDE, budget_tokens=dated.tokens - 1), tokens, shown)
    assert less.items[0].line == "- [2026-03-01 vector a] we met yesterday"
    assert select(ranked, frozenset(), WIDE, tokens).items[0].line == less.items[0].line


@given(
    texts=st.lists(NASTY | st.just("yesterday and next week, tomorrow"), max_size=6),
    budget=st.integers(1, 200),
    style=st.sampled_from(get_args(RenderStyle)),
)
def test_the_budget_is_a_ceiling_in_every_style(
    tokens: TokenCounter, texts: list[str], budget: int, style: RenderStyle
):
    ranked = [scored(f"m{place}", text, ts=NOW, speaker="Bo") for place, text in enumerate(texts)]
    shown = Shown(style=style, dates=RelativeDates(zone=UTC, now=NOW))
    selection = select(ranked, frozenset({"week"}), replace(WIDE, budget_tokens=budget), tokens, shown)
    rendered = "\n".join(item.line for item in selection.items)
    assert tokens.count(rendered) <= selection.tokens <= budget
    assert len(rendered.splitlines()) == len(selection.items)


def test_a_window_of_a_long_text_keeps_who_said_it(tokens: TokenCounter):
    filler = "some other words " * 60
    ranked = [scored("a", f"{filler} the crane needs a gearbox {filler}", speaker="Bo", title="Port")]
    (item,) = select(ranked, frozenset({"gearbox"}), WIDE, tokens).items
    assert item.snippet.startswith("Port: Bo: … ")
    assert "needs a gearbox" in item.snippet


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


def test_tokens_that_are_left_go_to_what_was_cut_and_to_nobody_else(tokens: TokenCounter):
    long = (
        "The boat has a new sail, " + "and it is blue and very light, " * 2 + "and the price was 400 euros in all."
    )
    ranked = [scored(f"m{place}", long if place == 2 else f"short {place}", ts=NOW) for place in range(4)]
    caps = replace(WIDE, later_snippet_tokens=16, max_total_items=4)
    tight = select(ranked, frozenset({"sail"}), replace(caps, snippet_tokens=16), tokens)
    wide = select(ranked, frozenset({"sail"}), caps, tokens)
    assert ids(wide) == ids(tight)
    assert "400 euros" not in tight.items[2].snippet
    assert "400 euros" in wide.items[2].snippet
    assert [one.line for one in wide.items if one.scored.memory.id != "m2"] == [
        one.line for one in tight.items if one.scored.memory.id != "m2"
    ]
    room = tight.tokens + 8
    partly = select(ranked, frozenset({"sail"}), replace(caps, budget_tokens=room), tokens)
    assert ids(partly) == ids(tight)
    assert tight.tokens < partly.tokens <= room


def test_where_no_item_has_a_full_window_at_once_more_of_them_fit(tokens: TokenCounter):
    long = "The boat has a new sail, and it is blue and very light, and the price was 400 euros in all, said Per."
    ranked = [scored(f"m{place}", f"{place}: {long}", ts=NOW) for place in range(8)]
    caps = replace(WIDE, snippet_tokens=64, later_snippet_tokens=14, max_total_items=8, budget_tokens=230)
    first = select(ranked, frozenset({"sail"}), caps, tokens)
    none = select(ranked, frozenset({"sail"}), replace(caps, full_windows=0), tokens)
    assert len(none.items) > len(first.items)
    few = select(ranked[:3], frozenset({"sail"}), replace(caps, full_windows=0), tokens)
    assert not any(one.is_cut for one in few.items)


def test_a_memory_with_a_successor_is_marked_with_the_day_of_that(tokens: TokenCounter):
    link = SuccessionLink(key=1, id="new", at=NOW, reason="by_person")
    ended = replace(scored("old", "The rink is 9 crowns an hour.", ts=NOW - 1e6), ended=link)
    (one,) = select([ended], frozenset({"rink"}), WIDE, tokens).items
    assert "(until 2026-03-01)" in one.line


STATED = ("Olga works at Lower Tarn Ice Rink", "Olga sister of Per Johan Ekeland")
LONG = "In the morning the rink is empty. She teaches there on Sundays. The cafe has waffles with cheese and jam."


@pytest.mark.parametrize("room", range(14, 60))
def test_a_line_of_the_graph_that_is_cut_keeps_whole_statements_or_the_beginning_of_one(
    tokens: TokenCounter, room: int
):
    item = scored("m", LONG, source="rdf", statements=STATED, ts=NOW, speaker="Per")
    (one,) = select([item], frozenset({"waffles", "ekeland"}), replace(WIDE, snippet_tokens=room), tokens).items
    assert one.snippet.startswith("Olga works at")
    stated, _, said = one.snippet.partition(" (")
    for part in stated.removesuffix(" …").removesuffix(";").split("; "):
        assert any(whole == part or (part == stated and whole.startswith(part)) for whole in STATED)
    assert not said or ("waffles" in said and said.endswith(")"))


def test_a_statement_too_long_for_its_line_keeps_its_subject_and_relation(tokens: TokenCounter):
    statement = f"Olga teaches at {'the very long name of the rink ' * 12}"
    item = scored("m", "She teaches.", source="rdf", statements=(statement,), ts=NOW)
    (one,) = select([item], frozenset({"rink"}), replace(WIDE, snippet_tokens=20), tokens).items
    assert one.snippet.startswith("Olga teaches at the very long name")
    assert one.snippet.endswith(" …")
