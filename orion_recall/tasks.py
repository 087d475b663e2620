"""Ending tasks, and errors that nobody has foreseen: none vanishes, and none costs more than its own work."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from orion_recall.errors import OrionError

log = logging.getLogger("orion_recall.tasks")
T = TypeVar("T")


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancels the tasks and waits until they have ended. What one raises instead of ending is logged.

    A task that had ended before is left alone: its error is for whoever waits for it.
    """
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, Exception):
            report("a task failed while it was being ended", outcome)


async def outcomes(what: str, *awaited: Awaitable[T]) -> list[T | Exception]:
    """What each gives, or the error that it raised. Errors that are none of ours are logged, with `what` failed."""
    found: list[T | Exception] = []
    for outcome in await asyncio.gather(*awaited, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, Exception) and not isinstance(outcome, OrionError):
            report(what, outcome)
        found.append(outcome)
    return found


@contextmanager
def errors_logged(what: str) -> Generator[None]:
    """An error of the block is logged, and ends there: for what must not undo what was done before it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (logged below, with its traceback)
        report(what, error)


def report(what: str, error: Exception) -> None:
    """Logs an error of any kind: its type and where it was raised, not its text, which may quote a memory."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s: %s\n%s", what, type(error).__name__, where)
