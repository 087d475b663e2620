"""asyncio tasks: cancel them, give them a time limit, slots for them, log unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from orion_recall.errors import OrionError

log = logging.getLogger("orion_recall.tasks")
T = TypeVar("T")
U = TypeVar("U")


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until they have ended. What one raises instead of ending is logged.

    A task that had ended before is left alone: its error belongs to its own awaiter.
    """
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, Exception):
            report("a task failed while it was being ended", outcome)


async def in_time(work: Awaitable[T], seconds: float) -> T:
    """The result of the work; TimeoutError after so many seconds."""
    async with asyncio.timeout(seconds):
        return await work


async def both(first: Coroutine[Any, Any, T], second: Awaitable[U]) -> tuple[T, U]:
    """What the two give, at once; when the second fails, the first is cancelled."""
    task = asyncio.create_task(first)
    try:
        found = await second
    except BaseException:
        await cancel(task)
        if not task.cancelled():
            task.exception()  # of two errors one is told
        raise
    return await task, found


async def sleep(seconds: float, until: asyncio.Event | None = None) -> bool:
    """Sleep for so many seconds, or until the event is set; whether it was set."""
    if until is None:
        await asyncio.sleep(seconds)
        return False
    try:
        async with asyncio.timeout(seconds):
            return await until.wait()
    except TimeoutError:
        return False


@dataclass(slots=True)
class Waited:
    """Whether a task was ended while it waited for its turn, behind others that were being answered."""

    is_set: bool = False


_WAITED: ContextVar[Waited | None] = ContextVar("waited", default=None)


def noticed(work: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T], Waited]:
    """A task, and whether it was ended while it waited: that is no failure of what it waited for."""
    waited, context = Waited(), copy_context()
    context.run(_WAITED.set, waited)
    return asyncio.create_task(work, context=context), waited


def note_waited() -> None:
    """Tell whoever `noticed` this task that it was ended while it waited for its turn."""
    if (waited := _WAITED.get()) is not None:
        waited.is_set = True


class Slots:
    """A number of slots: each task holds one inside an `async with`, while it is answered."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._answered = 0

    async def __aenter__(self) -> None:
        """Take a slot. A task that is ended while it waits, and others are answered, is noted as such."""
        before = self._answered
        try:
            await self._free.acquire()
        except asyncio.CancelledError:
            if self._answered > before:
                note_waited()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._answered += kind is None
        self._free.release()


async def outcomes(what: str, *awaited: Awaitable[T]) -> list[T | Exception]:
    """The result of each awaitable, or the error it raised; one that is no OrionError is logged as `what`."""
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
    """Log an error of the block and go on: for work that must not undo what was done before it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (logged below, with its traceback)
        report(what, error)


def report(what: str, error: BaseException) -> None:
    """Log an error of any kind: its type and traceback, not its text, which may quote a memory."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s: %s\n%s", what, type(error).__name__, where)


# First and longest waits, in seconds, for the bus and for Postgres.
BUS_S, POSTGRES_S = (0.05, 2.0), (0.2, 5.0)

# Sleeps for seconds, or until the event is set.
Sleep = Callable[[float, asyncio.Event | None], Awaitable[object]]


class Backoff:
    """Waits of `first_s`, doubled up to `longest_s`, until `reset()`.

    Each wait is between half and all of that ("equal jitter"), so that processes that lost the same server do not
    come back to it in step: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    def __init__(
        self, first_s: float, longest_s: float, *, sleep: Sleep = sleep, jitter: Callable[[], float] = random.random
    ) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._sleep, self._jitter = sleep, jitter
        self.next_s = first_s
        self.is_first = True

    def reset(self) -> None:
        """After a success: the next wait is a first one."""
        self.next_s, self.is_first = self._first_s, True

    async def wait(self, stop: asyncio.Event | None = None) -> None:
        """Sleep for `next_s` at most, which then grows; `stop` ends the sleep."""
        upper_s, self.is_first = self.next_s, False
        self.next_s = min(upper_s * 2, self._longest_s)
        await self._sleep(upper_s * (1 + self._jitter()) / 2, stop)
