"""New ids: random UUIDs, as `uuid.uuid4` makes them, with one system call for hundreds of them.

A system call lets other threads have Python's lock, and the event loop then waits for it: three times a recall.
"""

from __future__ import annotations

import os

_AT_ONCE = 256
_DIGITS = 32
# RFC 9562: the two highest bits of the variant are 1 and 0.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
# Hexadecimal digits from the system, drawn ahead; a forked process draws its own.
_DRAWN: list[str] = []
os.register_at_fork(after_in_child=_DRAWN.clear)


def new_id() -> str:
    """A random UUID (version 4) in its usual form."""
    try:
        digits = _DRAWN.pop()  # safe between threads, as to ask and then take is not
    except IndexError:
        drawn = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
        digits, *others = (drawn[start : start + _DIGITS] for start in range(0, len(drawn), _DIGITS))
        _DRAWN.extend(others)
    # As str(UUID(bytes=…, version=4)) writes it: that takes three times as long, and a message has three new ids.
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
