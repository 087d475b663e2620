"""The choice of a bundle's items: caps per source and in total, then the token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.render import body, head
from orion_recall.recall.bundle.selection import DropReason, SelectedItem, Selection
from orion_recall.recall.bundle.snippet import line_tokens, snippet, stems
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import SourceName

# No line takes fewer tokens: dash, brackets, date, source, reference.
_SHORTEST_LINE = 8
# A snippet of fewer tokens says nothing: the memory is left out instead.
_SHORTEST_SNIPPET = 12
# In any text a token takes fewer characters than this: tokens of a text that clearly does not fit are not counted.
_MOST_CHARS_A_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of a bundle."""

    source_top_k: Mapping[SourceName, int]
    max_per_source: int
    max_total_items: int
    budget_tokens: int
    snippet_tokens: int
    over_budget: Literal["skip", "stop"]


def select(ranked: Sequence[ScoredCandidate], terms: frozenset[str], caps: Caps, tokens: TokenCounter) -> Selection:
    """The bundle's items in rank order. The rendered lines, newlines included, never exceed the budget."""
    left_out: dict[int, DropReason] = {}
    per_source: Counter[SourceName] = Counter()
    seen: Counter[SourceName] = Counter()
    items: list[SelectedItem] = []
    wanted, left = stems(terms), caps.budget_tokens
    for place, scored in enumerate(ranked):
        source, key = scored.candidate.best_source, scored.candidate.key
        seen[source] += 1
        if seen[source] > caps.source_top_k[source]:
            left_out[key] = "source_top_k"
        elif per_source[source] >= caps.max_per_source:
            left_out[key] = "max_per_source"
        elif len(items) >= caps.max_total_items:
            left_out[key] = "max_total_items"
        elif left < _SHORTEST_LINE or (item := _fitted(scored, wanted, caps.snippet_tokens, left, tokens)) is None:
            left_out[key] = "token_budget"
            if caps.over_budget == "stop":
                left_out |= dict.fromkeys([one.candidate.key for one in ranked[place + 1 :]], "token_budget")
                break
        else:
            items.append(item)
            per_source[source] += 1
            left -= item.tokens
    return _within_budget(items, caps.budget_tokens, left_out, tokens)


def _within_budget(
    items: list[SelectedItem], budget_tokens: int, left_out: dict[int, DropReason], tokens: TokenCounter
) -> Selection:
    """The selection with its exact tokens: the last line has no newline, which costs some endings a token."""
    used = 0
    while items:
        used = sum(item.tokens for item in items[:-1]) + tokens.count(items[-1].line)
        if used <= budget_tokens:
            break
        left_out[items.pop().scored.candidate.key] = "token_budget"
    return Selection(
        items=tuple(items),
        tokens=used if items else 0,
        dropped=dict(Counter(left_out.values())),
        left_out=left_out,
    )


def _fitted(
    scored: ScoredCandidate, wanted: frozenset[str], snippet_tokens: int, left: int, tokens: TokenCounter
) -> SelectedItem | None:
    """The item with as much of its best window as fits, or None when too little would be left of it."""
    prefix, text = head(scored), body(scored)
    before = tokens.count(prefix)
    allowed = min(snippet_tokens, left - before)
    if allowed < _SHORTEST_SNIPPET:
        if len(text) > allowed * _MOST_CHARS_A_TOKEN:
            return None
        whole = line_tokens(text, tokens)
        # The last line needs no room for a newline.
        if whole > allowed and tokens.count(f" {text}") > allowed:
            return None
        return SelectedItem(scored=scored, snippet=text, line=f"{prefix} {text}", tokens=before + whole)
    window, used = snippet(text, wanted, allowed, tokens)
    return SelectedItem(scored=scored, snippet=window, line=f"{prefix} {window}", tokens=before + used)
