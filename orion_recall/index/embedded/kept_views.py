"""A cache of the memories that an index read last: most of what a recall reads, the one before it has read, too.

To read a hundred memories takes the engine and Python as long as two searches. What was read is kept until it is
written again: the writer says what it writes before and after it does so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from orion_recall.values import MemoryView

_MOST = 4096
_MOST_CHARS = 4000


class KeptViews:
    """The memories that were read or asked for last: `most` of them at least, and at most twice as many.

    With `most` 0 none is kept. A longer text is not kept, so that there is a bound to the memory that they take.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        # Two generations are a cheap least-recently-used cache: what is asked for moves to the younger one.
        self._young: dict[int, MemoryView] = {}
        self._old: dict[int, MemoryView] = {}
        self._writing = 0
        self._writes = 0

    async def fetched(
        self, keys: Sequence[int], read: Callable[[Sequence[int]], Awaitable[Mapping[int, MemoryView]]]
    ) -> Mapping[int, MemoryView]:
        """The memories of these keys, in their order; `read` reads those that are not kept."""
        young = self._young.get
        views = {key: view for key in keys if (view := young(key)) is not None}
        if len(views) == len(keys):
            return views
        views = {key: view for key in keys if (view := self._get(key)) is not None}
        if not (missing := [key for key in keys if key not in views]):
            return views
        before = self._writes
        read_now = await read(missing)
        if self._most and not self._writing and before == self._writes:
            self._keep(read_now)
        return {key: view for key in keys if (view := views.get(key) or read_now.get(key)) is not None}

    def may_have_passages(self, keys: Sequence[int]) -> list[int]:
        """The keys without those of memories that are known to have no passages."""
        young, old = self._young.get, self._old.get
        return [key for key in keys if (view := young(key) or old(key)) is None or view.passages]

    @contextmanager
    def written(self, keys: Iterable[int]) -> Generator[None]:
        """These are written while the block runs: whoever asks for them reads them anew."""
        self._writing += 1
        self._writes += 1
        self._forget(keys := tuple(keys))
        try:
            yield
        finally:
            self._writing -= 1
            self._writes += 1
            self._forget(keys)

    def clear(self) -> None:
        """Forgets all."""
        self._writes += 1
        self._young, self._old = {}, {}

    def _get(self, key: int) -> MemoryView | None:
        if (view := self._young.get(key)) is None and (view := self._old.get(key)) is not None:
            self._add(key, view)
        return view

    def _keep(self, views: Mapping[int, MemoryView]) -> None:
        for key, view in views.items():
            if len(view.text) <= _MOST_CHARS:
                self._add(key, view)

    def _add(self, key: int, view: MemoryView) -> None:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = view

    def _forget(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._young.pop(key, None)
            self._old.pop(key, None)
