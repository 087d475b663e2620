"""Python itself in a process that serves: its garbage collector, and how soon a thread gives way."""

from __future__ import annotations

import gc
import sys

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
