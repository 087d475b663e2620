"""The choice of a bundle's items: caps per source and in total, repetition, then the token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.lines import SHOWN_V1, DropReason, Lines, SelectedItem, Selection, Shown
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.normal import content_words, stems
from orion_recall.values import SOURCE_NAMES, SourceName

_READ_CHARS = 1000


def _words_beside(asked: Set[str], text: str) -> frozenset[str]:
    """The stems of a text's words, without those of the question: these say nothing about two of a kind."""
    return stems(frozenset(content_words(text[:_READ_CHARS]))) - asked


# No line takes fewer tokens: dash, date and a word.
_SHORTEST_LINE = 4

# After so many in turn that do not fit, hardly any does: each costs its tokens' count.
_MOST_MISSES = 8
# Fewer tokens say hardly anything more.
_LEAST_WIDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of a bundle. `later_snippet_tokens` is the window of the items after `full_windows` first ones.

    The answer is most often among the first, and is shown with more of what is around it.
    """

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
        return (
            self.snippet_tokens
            if taken < self.full_windows
            else min(self.snippet_tokens, self.later_snippet_tokens)
        )


def select(
    ranked: Sequence[ScoredCandidate],
    terms: frozenset[str],
    caps: Caps,
    tokens: TokenCounter,
    shown: Shown = SHOWN_V1,
) -> Selection:
    """The bundle's items in rank order. The rendered lines, newlines included, never exceed the budget.

    The caps of a source, and of repetition, decide who is taken first. Those that they leave out take the room that
    is left, in items and tokens, best first; who does not get in keeps the cap as the reason. Tokens that are left
    then go to what was cut.
    """
    left_out: dict[int, DropReason] = {}
    per_source: dict[SourceName, int] = dict.fromkeys(caps.source_top_k, 0)
    seen = dict(per_source)
    items: dict[int, SelectedItem] = {}
    waiting: list[tuple[int, ScoredCandidate]] = []
    wanted, left, misses, taken = stems(terms), caps.budget_tokens, 0, 0
    top_k, most, most_of_source = caps.source_top_k, caps.max_total_items, caps.max_per_source
    lines = Lines(wanted=wanted, tokens=tokens, shown=shown)
    said: list[frozenset[str]] = []  # the words of each item, where only a share of an item's may be repeated
    share = caps.max_repetition
    for place, scored in enumerate(ranked):
        candidate = scored.candidate
        source, key = candidate.best_source, candidate.key
        seen[source] += 1
        if seen[source] > top_k[source]:
            left_out[key] = "source_top_k"
            waiting.append((place, scored))
        elif per_source[source] >= most_of_source:
            left_out[key] = "max_per_source"
            waiting.append((place, scored))
        elif said and _repeats(_words_beside(wanted, scored.memory.text), said, share):
            left_out[key] = "repetition"
            waiting.append((place, scored))
        elif taken >= most:
            left_out[key] = "max_total_items"
        elif (
            left < _SHORTEST_LINE
            or misses >= _MOST_MISSES
            or (item := lines.fitted(_in_room(scored, most - taken), left, window=caps.window_of(len(items))))
            is None
        ):
            left_out[key] = "token_budget"
            misses += 1
            if caps.over_budget == "stop":
                left_out |= dict.fromkeys([one.candidate.key for one in ranked[place + 1 :]], "token_budget")
                waiting = []
                break
        else:
            items[place], misses = item, 0
            if share < 1:
                said.append(_words_beside(wanted, scored.memory.text))
            per_source[source] += 1
            left -= item.tokens
            taken += 1 + len(item.scored.same)
    for place, scored in waiting:
        if taken >= most or left < _SHORTEST_LINE or misses >= _MOST_MISSES:
            break
        shorter = _in_room(scored, most - taken)
        if (item := lines.fitted(shorter, left, window=caps.window_of(len(items)))) is not None:
            items[place] = item
            left -= item.tokens
            taken += 1 + len(item.scored.same)
            del left_out[scored.candidate.key]
        elif caps.over_budget == "stop":
            break
        else:
            misses += 1
    kept = _widened([items[place] for place in sorted(items)], left, caps, lines)
    return _with_same(ranked, _within_budget(kept, caps.budget_tokens, left_out, tokens))


def _repeats(own: Set[str], said: Sequence[Set[str]], most: float) -> bool:
    return any(len(own & other) > most * len(own) for other in said)


def _in_room(scored: ScoredCandidate, room: int) -> ScoredCandidate:
    return scored if len(scored.same) < room else replace(scored, same=scored.same[: room - 1])


def _with_same(ranked: Sequence[ScoredCandidate], selection: Selection) -> Selection:
    """The selection with an item for every memory that a line names: equal texts have one line, with the first.

    Those that no line names are left out as the first is, or as there is no room for them.
    """
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
    caps = replace(caps, source_top_k=dict.fromkeys(SOURCE_NAMES, len(ranked)), max_per_source=caps.max_total_items)
    best = select(ranked, terms, caps, tokens, shown)
    if not best.items or not _has_all_but_chatter(best, ranked):
        return best
    by_time = select(sorted(ranked, key=_by_time), terms, caps, tokens, shown)
    return by_time if _has_all_but_chatter(by_time, ranked) else best


def _has_all_but_chatter(selection: Selection, ranked: Sequence[ScoredCandidate]) -> bool:
    return not any(item.candidate.key in selection.left_out and not item.memory.chatter for item in ranked)


def _by_time(item: ScoredCandidate) -> tuple[bool, float, str]:
    return item.memory.chatter, item.memory.ts or 0.0, item.memory.id
