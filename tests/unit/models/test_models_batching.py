from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
import pytest_asyncio

from orion_recall.errors import ModelError
from orion_recall.foreground import FOREGROUND
from orion_recall.models.batching import QueryBatcher, Vector, separate


class GatedEncoder:
    """Gives each text's length as its vector; stops before every batch until the gate is open."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.failure: Exception | None = None

    def __call__(self, texts: list[str]) -> list[Vector]:
        self.batches.append(texts)
        assert self.gate.wait(60)
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        return separate(np.array([[len(text)] for text in texts], dtype=np.float32))


async def until(predicate: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not predicate():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.001)


@pytest.fixture
def encoder() -> GatedEncoder:
    return GatedEncoder()


@pytest_asyncio.fixture(loop_scope="session")
async def batcher(encoder: GatedEncoder) -> AsyncIterator[QueryBatcher[Vector]]:
    batcher = QueryBatcher(encoder, max_batch=3, cache_size=4)
    yield batcher
    encoder.gate.set()
    await batcher.close()


async def start(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder, texts: list[str]
) -> list[asyncio.Task[Vector]]:
    """Queries of which the first is being embedded when the others arrive."""
    tasks = [asyncio.create_task(batcher.embed(texts[0]))]
    await until(lambda: bool(encoder.batches), "the first batch starts")
    tasks += [asyncio.create_task(batcher.embed(text)) for text in texts[1:]]
    await until(lambda: batcher.cache_misses + batcher.cache_hits == len(texts), "all queries have been taken in")
    return tasks


async def test_a_lone_query_starts_at_once_and_what_arrives_meanwhile_makes_fifo_batches(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    texts = ["first", "a long one", "b", "cc", "d", "another long one"]
    tasks = await start(batcher, encoder, texts)
    encoder.gate.set()

    vectors = await asyncio.gather(*tasks)

    assert encoder.batches == [["first"], ["a long one", "b", "cc"], ["d", "another long one"]]
    assert [vector.tolist() for vector in vectors] == [[len(text)] for text in texts]


async def test_the_same_text_waiting_twice_is_embedded_once(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    tasks = await start(batcher, encoder, ["same", "same", "other", "other"])
    encoder.gate.set()

    await asyncio.gather(*tasks)

    assert encoder.batches == [["same"], ["other"]]
    assert (batcher.cache_hits, batcher.cache_misses) == (2, 2)


async def test_a_text_seen_before_comes_from_the_cache_and_cannot_be_changed_by_its_reader(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    encoder.gate.set()
    await batcher.embed("text")
    again = await batcher.embed("text")

    assert encoder.batches == [["text"]]
    assert (batcher.cache_hits, batcher.cache_misses) == (1, 1)
    with pytest.raises(ValueError, match="read-only"):
        again += 1


async def test_a_cancelled_caller_does_not_disturb_the_others(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    running, shared, kept, leaving = await start(batcher, encoder, ["running", "shared", "shared", "leaving"])
    for task in (running, shared, leaving):
        task.cancel()
    await asyncio.wait([running, shared, leaving])
    late = asyncio.create_task(batcher.embed("late"))
    await until(lambda: batcher.cache_misses == 4, "the late query is taken in")
    encoder.gate.set()

    assert (await kept).tolist() == [6]
    assert (await late).tolist() == [4]
    assert running.cancelled() and shared.cancelled() and leaving.cancelled()
    assert encoder.batches == [["running"], ["shared", "late"]], "nobody waits for 'leaving' any more"


async def test_a_batch_that_fails_fails_its_own_callers_only(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    failing, waiting = await start(batcher, encoder, ["failing", "waiting"])
    encoder.failure = RuntimeError("out of memory")
    encoder.gate.set()

    with pytest.raises(ModelError, match="out of memory"):
        await failing
    assert (await waiting).tolist() == [7]
    assert (await batcher.embed("failing")).tolist() == [7], "and may be tried again"


async def test_a_query_has_the_right_of_way_until_it_has_its_vector(
    batcher: QueryBatcher[Vector], encoder: GatedEncoder
) -> None:
    (asked,) = await start(batcher, encoder, ["a question"])
    began = time.perf_counter()
    await FOREGROUND.pause(0.05)
    assert time.perf_counter() - began >= 0.05, "documents wait, for as long as they may"

    waiting = asyncio.create_task(FOREGROUND.pause(60))
    encoder.gate.set()
    await asked
    async with asyncio.timeout(30):
        await waiting
