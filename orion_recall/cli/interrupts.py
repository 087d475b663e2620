"""One interrupt is enough: for commands that have something to delete when they end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Generator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def interrupted_once() -> Generator[None]:
    """Takes SIGINT and SIGTERM for the block: the first cancels it; while it cleans up, others do nothing."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    is_asked = False

    def ask() -> None:
        nonlocal is_asked
        if not is_asked:
            is_asked = True
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
