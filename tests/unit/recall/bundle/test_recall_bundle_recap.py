from __future__ import annotations

from typing import Any

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.select import Caps, select_recap
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.values import SOURCE_NAMES
from tests.samples.recall_fakes import NOW, scored


def caps(**changes: Any) -> Caps:
    values: dict[str, Any] = {
        "source_top_k": dict.fromkeys(SOURCE_NAMES, 1),
        "max_per_source": 1,
        "max_total_items": 10,
        "budget_tokens": 1000,
        "snippet_tokens": 48,
        "over_budget": "skip",
    }
    return Caps(**(values | changes))


def ranked() -> list[ScoredCandidate]:
    """Best first: neither in the order of time nor against it."""
    return [
        scored("second", score=0.9, ts=NOW + 2),
        scored("third", score=0.8, ts=NOW + 3),
        scored("first", score=0.7, ts=NOW + 1),
        scored("thanks", score=0.0, ts=NOW, chatter=True),
    ]


def ids(tokens: TokenCounter, **changes: Any) -> list[str]:
    selection = select_recap(ranked(), frozenset(), caps(**changes), tokens)
    return [item.scored.memory.id for item in selection.items]


def test_what_fits_is_in_the_order_of_time_with_chatter_last(tokens: TokenCounter):
    assert ids(tokens) == ["first", "second", "third", "thanks"]


def test_chatter_alone_may_be_left_out_of_it(tokens: TokenCounter):
    assert ids(tokens, max_total_items=3) == ["first", "second", "third"]


def test_what_does_not_fit_is_the_best_of_it_best_first(tokens: TokenCounter):
    assert ids(tokens, max_total_items=2) == ["second", "third"]


def test_nothing_is_a_recap_of_nothing(tokens: TokenCounter):
    assert select_recap([], frozenset(), caps(), tokens).items == ()
