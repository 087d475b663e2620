"""Signals of commands: those that serve, and those that have something to delete when they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

log = logging.getLogger("orion_recall.service")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class StopSignals:
    """Counts stop signals; the first one calls `gently`, or cancels the task without it.

    `reload` is what SIGHUP does.
    """

    task: asyncio.Task[object]
    asked: int = 0
    gently: Callable[[], None] | None = None
    reload: Callable[[], None] | None = None
    at_terminal: bool = field(default_factory=lambda: os.isatty(0))

    def ask(self) -> None:
        self.asked += 1
        if self.asked == 1 and self.gently is not None:
            log.info("stopping; once more to stop at once")
            self.gently()
        else:
            self.task.cancel()

    def hang_up(self) -> None:
        """SIGHUP: read the profiles again. From a terminal that has been closed it means to stop, as ever."""
        if self.at_terminal and not os.isatty(0):
            self.ask()
        elif self.reload is not None:
            self.reload()


@contextlib.contextmanager
def stop_signals() -> Generator[StopSignals]:
    """Takes SIGINT and SIGTERM for the block: one ends it without an error, a second one by CancelledError.

    SIGHUP is taken too, for reading the profiles again.
    """
    task = asyncio.current_task()
    assert task is not None
    signals = StopSignals(task)
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.ask)
    loop.add_signal_handler(signal.SIGHUP, signals.hang_up)
    try:
        yield signals
    except asyncio.CancelledError:
        if signals.asked != 1:
            raise
        task.uncancel()
    finally:
        for number in (*_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


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
