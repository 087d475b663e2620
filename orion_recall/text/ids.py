"""New ids: random UUIDs, as `uuid.uuid4` makes them, with one system call for hundreds of them.

A system call lets other threads have Python's lock, and the event loop then waits for it: three times a recall.
"""

from __future__ import annotations

import os
import threading

_AT_ONCE = 256
_BYTES = 16
# RFC 9562: the two highest bits of the variant are 1 and 0.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


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
    # As str(UUID(bytes=…, version=4)) writes it: that takes three times as long, and a message has three new ids.
    digits = _RANDOM.take().hex()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
