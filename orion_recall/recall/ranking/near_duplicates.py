"""Near-duplicates among scored candidates: memories that say the same as one ranked before them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.kept_words import word_set

# Texts that share nine tenths of their words and word pairs differ in far fewer of the 64 bits; what passes is
# compared word by word.
_NEAR_BITS = 16


def near_duplicates(scored: Sequence[ScoredCandidate], similarity: float) -> dict[int, int]:
    """The places of near-duplicates, each with the place of the kept candidate before it that it repeats.

    Two memories are the same when their normal forms are equal, or when their signatures are near and their
    words overlap (Jaccard) by `similarity` at least.
    """
    repeated: dict[int, int] = {}
    first: dict[str, int] = {}
    for place, item in enumerate(scored):
        if (same := first.setdefault(item.memory.text_hash, place)) != place:
            repeated[place] = same
    split: dict[int, frozenset[int]] = {}
    for earlier, later in _near_pairs(scored):
        if earlier in repeated or later in repeated:
            continue
        if (one := split.get(earlier)) is None:
            one = split[earlier] = word_set(scored[earlier].memory.text)
        if (other := split.get(later)) is None:
            other = split[later] = word_set(scored[later].memory.text)
        # No more words can be common than the shorter text has.
        count, further = len(one), len(other)
        fewer, more = (count, further) if count < further else (further, count)
        if fewer / (more or 1) >= similarity and _shared(one, other) >= similarity:
            repeated[later] = earlier
    return {place: _kept(place, repeated) for place in repeated}


def _kept(place: int, repeated: Mapping[int, int]) -> int:
    """The kept candidate: the first of a chain of repeats."""
    while place in repeated:
        place = repeated[place]
    return place


def jaccard(a: Collection[Hashable], b: Collection[Hashable]) -> float:
    """The share of words that two texts have in common; 0 for two texts without words."""
    return _shared(frozenset(a), frozenset(b))


def _shared(one: frozenset[Hashable], other: frozenset[Hashable]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common) if one or other else 0.0


def _near_pairs(scored: Sequence[ScoredCandidate]) -> list[tuple[int, int]]:
    """Pairs of places whose signatures differ in few bits, by place."""
    found = [(place, simhash) for place, item in enumerate(scored) if (simhash := item.memory.simhash) is not None]
    if len(found) < 2:
        return []
    signatures = np.array([simhash for _, simhash in found], dtype=np.int64).view(np.uint64)
    near = np.flatnonzero(np.bitwise_count(signatures[:, None] ^ signatures) <= _NEAR_BITS)
    rows, columns = np.divmod(near, len(found))
    later = rows < columns
    return [
        (found[row][0], found[column][0])
        for row, column in zip(rows[later].tolist(), columns[later].tolist(), strict=True)
    ]
