"""Whatever an engine raises costs its source's hits and no more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from orion_recall.errors import EngineError, SourceError, TransientSourceError
from orion_recall.sources.engine_threads import in_thread, translated


class Panic(BaseException):
    """Like the panics of engines written in Rust."""


def fail(error: BaseException) -> NoReturn:
    raise error


@pytest.mark.parametrize("error", [ValueError("bad"), OSError("gone"), Panic("index out of bounds")])
async def test_every_failure_is_a_source_error_that_says_what_failed(error: BaseException) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(SourceError, match=f"the index failed: .*{error}"):
        await in_thread(threads, "the index", lambda: fail(error))


@pytest.mark.parametrize("error", [SourceError("said already"), EngineError("held by process 7")])
def test_what_has_been_said_already_is_not_said_again(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        translated("the index", lambda: fail(error))


async def test_closed_threads_are_worth_another_try() -> None:
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(TransientSourceError, match="the graph is closing"):
        await in_thread(threads, "the graph", lambda: 1)


async def test_an_answer_comes_back() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert await in_thread(threads, "the graph", lambda: 17) == 17
