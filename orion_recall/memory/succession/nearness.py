"""How near an older text is to a newer one among the older memories."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

_CLOSE = 0.33
_RANKS_FROM = (1, 2, 3, 4, 6, 11)
_RANKS = (0.6, 0.45, 0.2, 0.0, -0.4, -0.9)
_WORD_RANKS = (0.0, 0.0, -0.1, -0.2, -0.3, -0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """How near the older text is among the older memories, where that was looked for.

    `cosine` of the two texts; `rank` of the older one by it, `word_rank` by words, both from 1. `shares` are the
    shares of the memories looked at that have a term, as far as they are known.
    """

    cosine: float | None = None
    rank: int | None = None
    word_rank: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict[str, float])

    def rarity(self, term: str) -> float:
        """1 for a term that hardly any memory looked at has, 0 for one that half of them have."""
        return max(0.0, 1.0 - 2.0 * max(0.0, self.shares.get(term, 0.0) - 0.1))

    @property
    def is_first(self) -> bool:
        """Whether it is one of the two nearest, as far as that was looked for."""
        return self.cosine is None or (self.rank is not None and self.rank <= 2 and self.cosine >= _CLOSE)

    @property
    def weight(self) -> float:
        """What it adds to the evidence."""
        by_words = 0.0 if self.word_rank is None else _WORD_RANKS[bisect(_RANKS_FROM, self.word_rank) - 1]
        if self.cosine is None:
            return by_words
        close = max(-0.6, min(0.9, 3.0 * (self.cosine - 0.35)))
        place = -0.9 if self.rank is None else _RANKS[bisect(_RANKS_FROM, self.rank) - 1]
        return max(close + place, -0.9 if self.word_rank is None else by_words - 0.4)


UNKNOWN = Nearness()
