"""The candidates' memories, read once and in one go."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

from orion_recall.errors import SourceError
from orion_recall.interfaces import MemoryReader
from orion_recall.recall.search.fallback import index_is_away
from orion_recall.values import Candidate, MemoryView, SourceReport

log = logging.getLogger("orion_recall.recall")

# What comes of a row or payload that is not as it should be.
_UNREADABLE = (SourceError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
# Reading a few dozen memories by key takes a millisecond; even a recall that is out of time waits this long for it.
_FETCH_S = 0.1


def to_be_fetched(pool: Sequence[Candidate], reports: Sequence[SourceReport]) -> list[int]:
    """All of them; while the index is away those alone that no source has read: it is the first to be asked."""
    is_away = index_is_away(reports)
    return [candidate.key for candidate in pool if not is_away or candidate.read is None]


async def fetch(
    keys: Sequence[int], readers: Sequence[MemoryReader], *, timeout_s: float
) -> Mapping[int, MemoryView]:
    """Memories by key, from the first reader that answers; none when none does."""
    if not keys:
        return {}
    until = time.perf_counter() + timeout_s
    for place, reader in enumerate(readers):
        # One that hangs leaves the others their share of the time.
        share_s = max((until - time.perf_counter()) / (len(readers) - place), _FETCH_S)
        try:
            async with asyncio.timeout(share_s):
                return await reader.fetch(keys)
        except (SourceError, TimeoutError):
            continue
    return {}  # what a source has read itself is still there; the rest is counted as missing


def read_of(candidate: Candidate) -> MemoryView | None:
    """The memory that a source brought with its hit; None when it brought none, or one that cannot be read."""
    if candidate.read is None:
        return None
    try:
        return candidate.read()
    except _UNREADABLE as error:
        _tell(candidate.best_source, type(error).__name__)
        return None


@lru_cache(maxsize=64)
def _tell(source: str, error: str) -> None:
    """Once for each of its arguments: a store with many such rows is in every recall."""
    log.warning(
        "a hit of %s cannot be read (%s): such hits are left out, and this is not said again", source, error
    )
