"""Near-duplicates among scored candidates: memories that say the same as one ranked before them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations

from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.kept_words import word_set


def near_duplicates(scored: Sequence[ScoredCandidate], similarity: float) -> dict[int, int]:
    """The places of near-duplicates, each with the place of the kept candidate before it that it repeats.

    Two memories are the same when their normal forms are equal, or when their words overlap (Jaccard) by
    `similarity` at least.
    """
    repeated: dict[int, int] = {}
    first: dict[str, int] = {}
    for place, item in enumerate(scored):
        if (same := first.setdefault(item.memory.text_hash, place)) != place:
            repeated[place] = same
    split: dict[int, frozenset[int]] = {}
    for earlier, later in combinations(range(len(scored)), 2):
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
