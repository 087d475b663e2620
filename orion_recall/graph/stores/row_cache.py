"""Answers of a graph that nobody else writes to, kept until it is written to.

The neighbourhood and the degrees of an entity are asked by the same query whatever the question was, so a
conversation about the same few entities asks the same again and again.
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
        """How often they were forgotten: what was read before the last time is not to be kept after it."""
        return self._writes

    def get(self, query: str) -> list[Row] | None:
        """The rows, when they are known."""
        with self._lock:
            rows = self._kept.get(query)
            if rows is None:
                return None
            self._kept.move_to_end(query)
            return list(rows)

    def keep(self, query: str, rows: Sequence[Row], writes: int) -> None:
        """Keeps rows that were asked for when `writes` was as given."""
        if len(rows) > _MOST_ROWS or sum(len(value) for row in rows for value in row.values()) > _MOST_CHARACTERS:
            return
        with self._lock:
            if writes != self._writes:
                return
            self._kept[query] = tuple(rows)
            while len(self._kept) > _MOST_QUERIES:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """The graph was written to."""
        with self._lock:
            self._writes += 1
            self._kept.clear()
