"""The choice of a bundle's items: caps per source and in total, repetition, then the token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.lines import SHOWN_V1, DropReason, Lines, SelectedItem, Selection, Shown
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.source_specs import source_names
from orion_recall.text.normal import content_words, stems
from orion_recall.values import SourceName

_READ_CHARS = 1000


# No line takes fewer tokens: dash, date and a word.
_SHORTEST_LINE = 4
# After so many in turn that do not fit, hardly any does: each costs its tokens' count.
_MOST_MISSES = 8
# Fewer tokens say hardly anything more.
_LEAST_WIDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of a bundle. `later_snippet_tokens` is the window of the items after `full_windows` first ones:
    the answer is most often among those."""

    source_top_k: Mapping[SourceName, int]
    max_per_source: int
    max_total_items: int
    budget_tokens: int
    snippet_tokens: int
    over_budget: Literal["skip", "stop"]
    max_repetition: float = 1.0
    later_snippet_tokens: int = 512
    full_windows: int = 2

    def window_of(self, taken: int) -> int:
        """The longest window of the next item, in tokens, after so many."""
        least = self.snippet_tokens if taken < self.full_windows else self.later_snippet_tokens
        return min(self.snippet_tokens, least)


def select(
    ranked: Sequence[ScoredCandidate],
    terms: frozenset[str],
    caps: Caps,
    tokens: TokenCounter,
    shown: Shown = SHOWN_V1,
) -> Selection:
    """The bundle's items in rank order. The rendered lines, newlines included, never exceed the budget.

    Those that the caps of a source, and of repetition, leave out take the room that is left, best first; who does
    not get in keeps the cap as the reason. Tokens that are left then go to what was cut.
    """
    left_out: dict[int, DropReason] = {}
    reason: DropReason | None
    per_source: dict[SourceName, int] = dict.fromkeys(caps.source_top_k, 0)
    seen = dict(per_source)
    items: dict[int, SelectedItem] = {}
    waiting: list[tuple[int, ScoredCandidate]] = []
    wanted, left, misses, taken = stems(terms), caps.budget_tokens, 0, 0
    top_k, most, most_of_source = caps.source_top_k, caps.max_total_items, caps.max_per_source
    lines = Lines(wanted=wanted, tokens=tokens, shown=shown)
    said: list[frozenset[str]] = []  # the words of each item, where only a share of an item's may be repeated
    share = caps.max_repetition

    def words_beside(scored: ScoredCandidate) -> frozenset[str]:
        """The stems of its words, without those of the question: these say nothing about two of a kind."""
        return stems(frozenset(content_words(scored.memory.text[:_READ_CHARS]))) - wanted

    def repeats(own: frozenset[str]) -> bool:
        return any(len(own & other) > share * len(own) for other in said)

    def is_taken(place: int, scored: ScoredCandidate) -> bool:
        nonlocal left, taken, misses
        room = most - taken
        if len(scored.same) >= room:
            scored = replace(scored, same=scored.same[: room - 1])
        is_full = left < _SHORTEST_LINE or misses >= _MOST_MISSES
        item = None if is_full else lines.fitted(scored, left, window=caps.window_of(len(items)))
        if item is None:
            misses += 1
            return False
        items[place] = item
        left -= item.tokens
        taken += 1 + len(item.scored.same)
        return True

    for place, scored in enumerate(ranked):
        source, key = scored.candidate.best_source, scored.candidate.key
        seen[source] += 1
        reason = own = None
        if seen[source] > top_k[source]:
            reason = "source_top_k"
        elif per_source[source] >= most_of_source:
            reason = "max_per_source"
        elif said and repeats(own := words_beside(scored)):
            reason = "repetition"
        if reason is not None:
            left_out[key] = reason
            waiting.append((place, scored))
        elif taken >= most:
            left_out[key] = "max_total_items"
        elif is_taken(place, scored):
            misses = 0
            if share < 1:
                said.append(own or words_beside(scored))
            per_source[source] += 1
        else:
            left_out[key] = "token_budget"
            if caps.over_budget == "stop":
                left_out |= dict.fromkeys([one.candidate.key for one in ranked[place + 1 :]], "token_budget")
                waiting = []
                break
    for place, scored in waiting:
        if taken >= most or left < _SHORTEST_LINE or misses >= _MOST_MISSES:
            break
        if is_taken(place, scored):
            del left_out[scored.candidate.key]
        elif caps.over_budget == "stop":
            break
    kept = _widened([items[place] for place in sorted(items)], left, caps, lines)
    return _with_same(ranked, _within_budget(kept, caps.budget_tokens, left_out, tokens))


def _with_same(ranked: Sequence[ScoredCandidate], selection: Selection) -> Selection:
    """The selection with an item for every memory that a line names: equal texts have one line, with the first.
    Those that no line names are left out as the first is, or as there is no room for them."""
    if not any(scored.same for scored in ranked):
        return selection
    items: list[SelectedItem] = []
    for item in selection.items:
        items.append(item)
        items += [replace(item, scored=other, line="", tokens=0) for other in item.scored.same]
    shown = {item.scored.candidate.key for item in items}
    left_out = dict(selection.left_out)
    for first in ranked:
        why = left_out.get(first.candidate.key, "max_total_items")
        left_out |= {one.candidate.key: why for one in first.same if one.candidate.key not in shown}
    return replace(selection, items=tuple(items), left_out=left_out, dropped=dict(Counter(left_out.values())))


def _widened(items: list[SelectedItem], left: int, caps: Caps, lines: Lines) -> list[SelectedItem]:
    """The items; later ones get windows as long as those of the first as far as tokens are left, best first."""
    widened: list[SelectedItem] = []
    for place, item in enumerate(items):
        if place >= caps.full_windows and item.is_cut and left >= _LEAST_WIDER:
            wider = lines.fitted(item.scored, item.tokens + left, window=caps.snippet_tokens)
            if wider is not None and 0 < wider.tokens - item.tokens <= left:
                left -= wider.tokens - item.tokens
                item = wider
        widened.append(item)
    return widened


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
        items=tuple(items), tokens=used if items else 0, dropped=dict(Counter(left_out.values())), left_out=left_out
    )


def select_recap(
    ranked: Sequence[ScoredCandidate],
    terms: frozenset[str],
    caps: Caps,
    tokens: TokenCounter,
    shown: Shown = SHOWN_V1,
) -> Selection:
    """The bundle's items: in rank order; in the order of time, and chatter last, where only chatter is left out.

    Caps of a source say nothing about a period, which the index lists as a whole.
    """
    caps = replace(
        caps, source_top_k=dict.fromkeys(source_names(), len(ranked)), max_per_source=caps.max_total_items
    )
    best = select(ranked, terms, caps, tokens, shown)
    if not best.items or not _has_all_but_chatter(best, ranked):
        return best
    in_time = sorted(ranked, key=lambda item: (item.memory.chatter, item.memory.ts or 0.0, item.memory.id))
    by_time = select(in_time, terms, caps, tokens, shown)
    return by_time if _has_all_but_chatter(by_time, ranked) else best


def _has_all_but_chatter(selection: Selection, ranked: Sequence[ScoredCandidate]) -> bool:
    return not any(item.candidate.key in selection.left_out and not item.memory.chatter for item in ranked)
