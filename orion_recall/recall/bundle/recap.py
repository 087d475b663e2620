"""The bundle of a recap: in the order of time where everything fits into it, and of changes in any case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.lines import SHOWN_V1, Shown
from orion_recall.recall.bundle.select import Caps, select
from orion_recall.recall.bundle.selection import Selection
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import SOURCE_NAMES


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
