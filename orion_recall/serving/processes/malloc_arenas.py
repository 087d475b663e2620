"""A bound on the arenas of glibc's malloc in a worker's process.

A thread that allocates while others do gets an arena of its own, up to eight for each core, and every arena keeps
what its fullest moment needed. A worker has some twenty threads, of the event loop, the model and the engines; they
hand their work to each other. With two arenas its private memory after 2,000 synthetic memories was a fifth less.
Python runs one of these threads at a time, and each has a cache of small blocks, so few of them wait for a lock.
"""

from __future__ import annotations

import ctypes
import os
import platform

_M_ARENA_MAX = -8
_MOST_ARENAS = 2


def bound_malloc_arenas() -> bool:
    """Lets malloc make two arenas at most, before threads are started; whether it does now.

    It does nothing where the C library is another one, or where the environment sets their number
    (MALLOC_ARENA_MAX, GLIBC_TUNABLES).
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    if platform.libc_ver()[0] != "glibc":
        return False
    return ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MOST_ARENAS) == 1
