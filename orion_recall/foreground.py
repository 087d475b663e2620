"""Priority of recalls (foreground) over background work in one process.

Python runs one thread at a time and asks a computing thread to let go only after a while: after half a
millisecond in a worker, by default after five. Beside one, each of a recall's forty switches between threads
would take that long. So background work runs in pieces of some milliseconds and yields to the foreground between
two of them, for a limited time, so that it always goes on.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

YIELD_S = 0.1
# After so long without a gap between recalls, background work yields for no more than the second time. Its pieces
# take some five milliseconds, so it has a fifth of a thread.
_WITHOUT_GAP_S, _YIELD_THEN_S = 1.0, 0.02

_IN_FOREGROUND: ContextVar[bool] = ContextVar("in_foreground", default=False)
# Whether the recall in progress has less time than the service gives, since its caller waits for less. What is
# cancelled then has not failed; clients that leave a server alone after it was silent know nothing of queries.
CUT_BY_CALLER: ContextVar[bool] = ContextVar("cut_by_caller", default=False)


class Foreground:
    """Foreground work in progress. It may be used from any thread and any event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._active_since = clock, 0.0
        self._active = 0
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def active(self) -> Generator[Callable[[], None]]:
        """Foreground work for the block. Gives a function that ends the priority before the block does."""
        is_held = True

        def release() -> None:
            nonlocal is_held
            with self._lock:
                self._active -= is_held
                is_held = False
                if not self._active:
                    self._idle.set()

        with self._lock:
            if not self._active:
                self._active_since = self._clock()
            self._active += 1
            self._idle.clear()
        token = _IN_FOREGROUND.set(True)
        try:
            yield release
        finally:
            _IN_FOREGROUND.reset(token)
            release()

    @property
    def is_own(self) -> bool:
        """Whether the caller is inside `active` itself: what it calls must not yield to it."""
        return _IN_FOREGROUND.get()

    def yield_to_foreground(self, most_s: float = YIELD_S) -> None:
        """Block while foreground work is active, `most_s` at most. For threads, not for the event loop."""
        self._idle.wait(self._shared(most_s))

    async def pause(self, most_s: float = YIELD_S) -> None:
        """As `yield_to_foreground`, on an event loop."""
        if not self._idle.is_set():
            await asyncio.to_thread(self._idle.wait, self._shared(most_s))

    def _shared(self, most_s: float) -> float:
        """How long to yield: less while foreground work goes on without a gap, unless `most_s` is unusual."""
        is_endless = self._active > 0 and self._clock() - self._active_since > _WITHOUT_GAP_S
        return min(most_s, _YIELD_THEN_S) if is_endless and most_s <= YIELD_S else most_s

    def throttled(self, work: Iterable[T], every: int) -> Iterator[T]:
        """The pieces of the work, yielding to the foreground before each `every` of them. For threads."""
        for number, piece in enumerate(work):
            if number % every == 0:
                self.yield_to_foreground()
            yield piece


# One for the process, as Python's lock is.
FOREGROUND = Foreground()


# A thread that computes keeps Python's lock for five milliseconds by default, and an event loop gives the lock back
# with each read and write of a socket. Much less than this costs more than it gives.
_SWITCH_INTERVAL_S = 0.0005


def tune_for_serving() -> None:
    """Call it once all that stays is there: modules, models, engines.

    The collector leaves alone what lives as long as the process: with its defaults it goes through all of that
    every few recalls, for a tenth of a worker's CPU. What a recall makes is nearly free of cycles; the seldom
    ones are still found, after more of them. And the event loop gets its turn soon beside threads that compute.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
