"""The candidates' memories, read at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

from orion_recall.errors import SourceError
from orion_recall.interfaces import MemoryReader
from orion_recall.scoring.candidates import Candidate
from orion_recall.tasks import in_time
from orion_recall.values import MemoryView

log = logging.getLogger("orion_recall.recall")

# The errors of reading a malformed row or payload.
_UNREADABLE = (SourceError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
# Reading a few dozen memories by key takes a millisecond; even a recall that is out of time waits this long for it.
_FETCH_S = 0.1


def keys_to_fetch(pool: Sequence[Candidate], *, is_away: bool) -> list[int]:
    """The keys of all candidates; while the index (the first reader) is away, of those that no source has read."""
    return [candidate.key for candidate in pool if not is_away or candidate.read is None]


async def fetch(
    keys: Sequence[int], readers: Sequence[MemoryReader], *, timeout_s: float
) -> Mapping[int, MemoryView]:
    """Memories by key, from the first reader that answers; empty when none does."""
    if not keys:
        return {}
    until = time.perf_counter() + timeout_s
    for place, reader in enumerate(readers):
        # A reader that hangs leaves the others their share of the time.
        share_s = max((until - time.perf_counter()) / (len(readers) - place), _FETCH_S)
        try:
            return await in_time(reader.fetch(keys), share_s)
        except (SourceError, TimeoutError):
            continue
    return {}  # memories that a source has read itself are still there; the rest is counted as missing


def read_of(candidate: Candidate) -> MemoryView | None:
    """The memory that a source read with its hit; None when there is none, or it cannot be read."""
    if candidate.read is None:
        return None
    try:
        return candidate.read()
    except _UNREADABLE as error:
        _warn_once(candidate.best_source, type(error.__cause__ or error).__name__)
        return None


@lru_cache(maxsize=64)
def _warn_once(source: str, error: str) -> None:
    """Once for each source and error: a store with many such rows is in every recall."""
    told = "a hit of %s cannot be read (%s) and is left out; check its rows or its mapping (logged once)"
    log.warning(told, source, error)


def with_passages(memories: Mapping[int, MemoryView], numbers: Mapping[int, int]) -> Mapping[int, MemoryView]:
    """The memories, each with the number of its best passage."""
    found = {key: memory._replace(passage=numbers[key]) for key, memory in memories.items() if key in numbers}
    return {**memories, **found} if found else memories
