"""Loads a model in its own thread, with one kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from orion_recall.errors import ModelError

T = TypeVar("T")


async def load_in_thread(executor: Executor, load: Callable[[], T], what: str) -> T:
    """The result of `load`; every failure is a `ModelError` that says what could not be loaded."""
    job = asyncio.get_running_loop().run_in_executor(executor, load)
    await asyncio.wait([job])
    error = job.exception()
    if error is None:
        return job.result()
    if isinstance(error, ModelError):
        raise error
    # The libraries raise bare exceptions for a model that they cannot find or read.
    raise ModelError(f"{what} could not be loaded: {error}") from error
