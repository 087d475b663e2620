"""A cache of query rows for the embedded graph, emptied by every write.

The query for an entity's neighbourhood does not depend on the question, so a conversation about the same few
entities sends the same query again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from orion_recall.graph.terms import Row

_MOST_QUERIES, _MOST_ROWS, _MOST_CHARACTERS = 256, 400, 100_000


class RowCache:
    """The rows of the last few queries, those that are short. May be used from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Sequence[Row]] = OrderedDict()
        self._writes = 0
        self._lock = Lock()

    @property
    def writes(self) -> int:
        """The number of writes so far: rows that were read before a write must not be kept after it."""
        return self._writes

    def get(self, query: str) -> list[Row] | None:
        """The rows of the query, None when they are not cached."""
        with self._lock:
            rows = self._kept.get(query)
            if rows is None:
                return None
            self._kept.move_to_end(query)
            return list(rows)

    def keep(self, query: str, rows: Sequence[Row], writes: int) -> None:
        """Cache rows that were read at this number of writes, unless a write came since or they are many."""
        if len(rows) > _MOST_ROWS or sum([sum(map(len, row.values())) for row in rows]) > _MOST_CHARACTERS:
            return
        with self._lock:
            if writes != self._writes:
                return
            self._kept[query] = tuple(rows)
            while len(self._kept) > _MOST_QUERIES:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Empty the cache: the graph was written to."""
        with self._lock:
            self._writes += 1
            self._kept.clear()
