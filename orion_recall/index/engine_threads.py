"""Threads for the blocking calls of an in-process engine; its failures become SourceErrors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from orion_recall.errors import EngineError, SourceError, TransientSourceError
from orion_recall.tasks import note_waited

T = TypeVar("T")


class EngineThreads:
    """The threads of one engine; with none, calls run in the caller's: to hand them over would take as long.

    `what` names it in errors ("the index").
    """

    def __init__(self, what: str, threads: int, *, name: str = "") -> None:
        self._what = what
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name) if threads else None
        self._answered = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives; SourceError that says what failed, TransientSourceError when they are closed."""
        if self._pool is None:
            return translated(self._what, work)
        before, begun = self._answered, threading.Event()

        def call() -> T:
            begun.set()
            value = translated(self._what, work)
            self._answered += 1
            return value

        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        except RuntimeError as error:
            raise TransientSourceError(f"{self._what} is closing: {error}") from error
        try:
            return await future
        except asyncio.CancelledError:
            if not begun.is_set() and self._answered > before:
                note_waited()
            raise

    async def close(self) -> None:
        """Wait for what runs, cancelled or not, while the loop goes on; nothing more is taken."""
        if self._pool is not None:
            await to_the_end(asyncio.to_thread(self._pool.shutdown))


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
