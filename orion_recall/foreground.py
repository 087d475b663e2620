"""Who goes first in a process that does two things at a time: recalls, which somebody waits for.

Python runs one thread at a time, and one that computes without a pause is asked for its turn only every five
milliseconds. A recall that takes forty turns would last two hundred milliseconds beside it. So work that nobody
waits for is done in pieces of some milliseconds, and lets recalls pass between two of them: for a while at most, so
that it goes on however many there are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

GIVE_WAY_S = 0.1

_WAITED_FOR: ContextVar[bool] = ContextVar("waited_for", default=False)


class RightOfWay:
    """Of what somebody waits for, over what can be done later. From any thread, and of any event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._lock = threading.Lock()
        self._clear = threading.Event()
        self._clear.set()

    @contextmanager
    def taken(self) -> Generator[Callable[[], None]]:
        """Somebody waits for what happens inside. What it gives ends the priority before the block does."""
        is_held = True

        def release() -> None:
            nonlocal is_held
            with self._lock:
                self._under_way -= is_held
                is_held = False
                if not self._under_way:
                    self._clear.set()

        with self._lock:
            self._under_way += 1
            self._clear.clear()
        token = _WAITED_FOR.set(True)
        try:
            yield release
        finally:
            _WAITED_FOR.reset(token)
            release()

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is inside `taken` itself: work that it asks for must not give way to it."""
        return _WAITED_FOR.get()

    def give_way(self, most_s: float = GIVE_WAY_S) -> None:
        """Blocks while somebody waits for something, for `most_s` at most. For threads beside the loop's."""
        self._clear.wait(most_s)

    async def pause(self, most_s: float = GIVE_WAY_S) -> None:
        """As `give_way`, on an event loop."""
        if not self._clear.is_set():
            await asyncio.to_thread(self._clear.wait, most_s)

    def between(self, work: Iterable[T], every: int) -> Iterator[T]:
        """The pieces of the work, letting others pass after each so many. For threads beside the loop's."""
        for number, piece in enumerate(work):
            if number % every == 0:
                self.give_way()
            yield piece


# Python's lock is one for all of a process, and so is this.
RECALLS = RightOfWay()
