"""How work grows with the size of what is given, seen on machines that do other things as well."""

from __future__ import annotations

import time
from collections.abc import Callable

_TRIES = 6


def grows_linearly(work: Callable[[int], object], small: int, large: int) -> bool:
    """Whether the larger size takes at most five times its share; quadratic work at ten times the size does not.

    The shortest of several tries counts: whatever else the machine does can only add to one.
    """
    share = 5 * large / small
    shortest = {small: float("inf"), large: float("inf")}
    for _ in range(_TRIES):
        for size in shortest:
            began = time.thread_time()
            work(size)
            shortest[size] = min(shortest[size], time.thread_time() - began)
        if shortest[large] <= share * max(shortest[small], 0.001):
            return True
    return False
