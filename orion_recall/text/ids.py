"""New ids: random UUIDs, as `uuid.uuid4` makes them, with one system call for hundreds of them.

A system call lets other threads have Python's lock, and the event loop then waits for it: three times a recall.
"""

from __future__ import annotations

import os
import threading
from uuid import UUID

_AT_ONCE = 256
_BYTES = 16


class _Random:
    """Random bytes from the system, drawn ahead; a forked process draws its own."""

    def __init__(self) -> None:
        self._drawn: list[bytes] = []
        self._lock = threading.Lock()

    def take(self) -> bytes:
        with self._lock:
            if not self._drawn:
                drawn = os.urandom(_AT_ONCE * _BYTES)
                self._drawn = [drawn[start : start + _BYTES] for start in range(0, len(drawn), _BYTES)]
            return self._drawn.pop()

    def forget(self) -> None:
        self._drawn, self._lock = [], threading.Lock()


_RANDOM = _Random()
os.register_at_fork(after_in_child=_RANDOM.forget)


def new_id() -> str:
    """A random UUID (version 4) in its usual form."""
    return str(UUID(bytes=_RANDOM.take(), version=4))
