"""Blocking calls of an in-process engine in threads; its failures told as what they cost: a source's hits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from orion_recall.errors import EngineError, SourceError, TransientSourceError

T = TypeVar("T")


async def in_thread(threads: ThreadPoolExecutor, what: str, work: Callable[[], T]) -> T:
    """What `work` gives; SourceError that says `what` failed, TransientSourceError when the threads are closed."""
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, translated, what, work)
    except RuntimeError as error:
        raise TransientSourceError(f"{what} is closing: {error}") from error


def translated(what: str, work: Callable[[], T]) -> T:
    """What `work` gives, here and now; every failure is a SourceError that says `what` failed."""
    try:
        return work()
    except (SourceError, EngineError):
        raise
    except BaseException as error:  # a panic inside the engine is a BaseException of its own
        raise SourceError(f"{what} failed: {type(error).__name__}: {str(error)[:200]}") from error
