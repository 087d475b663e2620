"""Whatever an engine raises costs its source's hits and no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import NoReturn

import pytest

from orion_recall.errors import SourceError
from orion_recall.index.engine_threads import EngineThreads

_BOUND_S = 60


class Panic(BaseException):
    """Like the panics of engines written in Rust."""


def fail(error: BaseException) -> NoReturn:
    raise error


@pytest.fixture
async def threads() -> AsyncGenerator[EngineThreads]:
    made = EngineThreads("the index", 2, name="test")
    yield made
    await made.close()


@pytest.mark.parametrize("error", [ValueError("bad"), OSError("gone"), Panic("index out of bounds")])
async def test_every_failure_is_a_source_error_that_says_what_failed(
    threads: EngineThreads, error: BaseException
) -> None:
    with pytest.raises(SourceError, match=f"the index failed: .*{error}"):
        await threads.run(lambda: fail(error))


async def test_a_call_given_up_before_its_turn_is_not_made(threads: EngineThreads) -> None:
    began, go_on = threading.Event(), threading.Event()
    made: list[str] = []

    def first() -> None:
        began.set()
        go_on.wait(_BOUND_S)

    one = asyncio.create_task(threads.run(first))
    other = asyncio.create_task(threads.run(lambda: made.append("other")))
    await asyncio.to_thread(began.wait, _BOUND_S)
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    go_on.set()
    await one
    assert made == []
    assert await threads.run(lambda: 17) == 17


async def test_who_closes_them_waits_for_what_runs_also_when_cancelled_and_the_loop_goes_on(
    threads: EngineThreads,
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def until_the_loop_says_so() -> bool:
        began.set()
        return go_on.wait(_BOUND_S)

    running = asyncio.create_task(threads.run(until_the_loop_says_so))
    await asyncio.to_thread(began.wait, _BOUND_S)
    closing = asyncio.create_task(threads.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert await running
