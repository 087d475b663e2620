"""Which older memories a memory succeeds: the near ones judged, the best kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orion_recall.memory.succession.decide import LEAST, UNTOLD, judge
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.succession.span import Reading

MOST = 3
"""Older memories that one memory is kept as the successor of."""


# Fewer memories say little about how common a word is.
_FEWEST = 20
_SPEAKERS_SHARE = 0.45
_RIVAL = 5.0
_SURE = 0.995


class Near(NamedTuple):
    """An older memory that was found near a newer one.

    `cosine` is None where it was found by words alone; `word_rank` is its place in the search by words, from 1.
    """

    reading: Reading
    cosine: float | None = None
    word_rank: int | None = None


class Found(NamedTuple):
    """A succession candidate: the ids of the newer and the older memory, the confidence, and what speaks for it."""

    new: str
    old: str
    confidence: float
    reason: str


def successions_of(new: Reading, near: Sequence[Near]) -> list[Found]:
    """The older memories that `new` succeeds, best first, at most `MOST`."""
    shares = _shares([new, *(one.reading for one in near)])
    by_cosine = sorted((one.cosine for one in near if one.cosine is not None), reverse=True)
    found: list[Found] = []
    for one in near:
        rank = None if one.cosine is None else by_cosine.index(one.cosine) + 1
        nearness = Nearness(cosine=one.cosine, rank=rank, word_rank=one.word_rank, shares=shares)
        judged = judge(new, one.reading, nearness)
        if judged is not None and judged.confidence >= LEAST:
            found.append(Found(new.id, one.reading.id, *judged))
    found.sort(key=lambda one: (-one.confidence, one.old))
    if found:
        # Whoever tells one change tells it of one thing: what fits much less well is alike, no more.
        least = _odds(found[0].confidence) / _RIVAL
        found = [one if _odds(one.confidence) >= least else _likeness(one) for one in found]
    return found[:MOST]


def _shares(readings: Sequence[Reading]) -> Mapping[str, float]:
    """Of every term the share of the readings that have it; names of their speakers count as said everywhere."""
    counts = Counter(term for one in readings for term in one.terms)
    speakers = {word for one in readings for word in one.speaker.split()}
    whole = max(_FEWEST, len(readings))
    return {term: _SPEAKERS_SHARE if term in speakers else count / whole for term, count in counts.items()}


def _odds(confidence: float) -> float:
    sure = min(confidence, _SURE)
    return sure / (1.0 - sure)


def _likeness(one: Found) -> Found:
    return one._replace(confidence=min(one.confidence, UNTOLD))
