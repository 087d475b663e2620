"""Threads for the blocking calls of an in-process engine; its failures become SourceErrors.

A call that crosses to a thread and back costs more CPU than most searches do. Calls made in the same turn of the
event loop therefore cross together, a few at a time, and come back together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from orion_recall.errors import EngineError, SourceError, TransientSourceError
from orion_recall.tasks import note_waited

T = TypeVar("T")

# More would wait for each other longer than crossing alone would have taken them.
_MOST_TOGETHER = 4


@dataclass(slots=True)
class _Call:
    """One piece of work, who waits for it, and what came of it."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None
    is_begun: bool = False


class EngineThreads:
    """The threads of one engine. `what` names it in errors ("the index")."""

    def __init__(self, what: str, threads: int, *, name: str) -> None:
        self._what = what
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting: list[_Call] = []
        self._answered = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives; SourceError that says what failed, TransientSourceError when they are closed."""
        loop = asyncio.get_running_loop()
        call = _Call(work, loop.create_future())
        self._waiting.append(call)
        if len(self._waiting) == 1:
            loop.call_soon(self._send, loop)
        before = self._answered
        try:
            return cast(T, await call.future)
        except asyncio.CancelledError:
            if not call.is_begun and self._answered > before:
                note_waited()
            raise

    async def close(self) -> None:
        """Wait for what runs, cancelled or not, while the loop goes on; nothing more is taken."""
        await to_the_end(asyncio.to_thread(self._pool.shutdown))

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), _MOST_TOGETHER):
            calls = waiting[start : start + _MOST_TOGETHER]
            try:
                self._pool.submit(self._work, loop, calls)
            except RuntimeError as error:
                for call in calls:
                    call.error = TransientSourceError(f"{self._what} is closing: {error}")
                _settle(calls)

    def _work(self, loop: asyncio.AbstractEventLoop, calls: list[_Call]) -> None:
        for call in calls:
            if call.future.cancelled():
                continue
            call.is_begun = True
            try:
                call.value = translated(self._what, call.work)
                self._answered += 1
            except (SourceError, EngineError) as error:
                call.error = error
        loop.call_soon_threadsafe(_settle, calls)


class InThisThread:
    """Runs an engine's calls in the calling thread: `EngineThreads` for a process that only serves its engine."""

    def __init__(self, what: str) -> None:
        self._what = what

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives; SourceError that says what failed."""
        return translated(self._what, work)

    async def close(self) -> None:
        """Nothing runs that could be waited for."""


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """What it gives; waited for when cancelled, too: what runs in a thread cannot be stopped half-way."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def translated(what: str, work: Callable[[], T]) -> T:
    """What `work` gives, here and now; every failure is a SourceError that says `what` failed."""
    try:
        return work()
    except (SourceError, EngineError):
        raise
    except BaseException as error:  # a panic inside the engine is a BaseException of its own
        raise SourceError(f"{what} failed: {type(error).__name__}: {str(error)[:200]}") from error


def _settle(calls: list[_Call]) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.value)
