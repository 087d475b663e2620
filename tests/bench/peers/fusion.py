"""Reciprocal rank fusion, and words for BM25, for the peers that are put together from parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_RANK_CONSTANT = 60
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words: rank_bm25 splits at blanks by itself, which keeps "Oskar?" from meeting "Oskar"."""
    return _WORD.findall(text.lower())


def fused(rankings: Iterable[Sequence[str]], k: int) -> list[str]:
    """The best `k` ids by the sum of 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            scores[one] = scores.get(one, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda one: (-scores[one], one))[:k]
