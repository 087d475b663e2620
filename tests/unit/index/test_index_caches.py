"""Caches and threads of an index."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pytest

from orion_recall.errors import SourceError
from orion_recall.index.caches import KeptViews, SpeakerCache
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.write_batch import VectorPrefetch
from orion_recall.values import MemoryView, Scope
from tests.samples.source_samples import NOW, TENANT, TokenEmbedder, changes, memory


def view(text: str, passages: tuple[int, ...] = ()) -> MemoryView:
    return MemoryView(id=text, text=text, text_hash="", passages=passages)


class Shard:
    """What a shard holds, and what was read of it."""

    def __init__(self, count: int = 9) -> None:
        self.held = {key: view(f"m{key}") for key in range(count)}
        self.read: list[int] = []

    async def __call__(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        found = {key: self.held[key] for key in reversed(keys) if key in self.held}
        await asyncio.sleep(0)
        self.read += keys
        return found


async def test_what_was_read_is_not_read_again_and_comes_in_the_order_asked_for() -> None:
    kept, shard = KeptViews(), Shard()
    await kept.fetched([3, 1], shard)
    found = await kept.fetched([2, 1, 77, 3], shard)
    assert (list(found), shard.read) == ([2, 1, 3], [3, 1, 2, 77])
    assert await kept.fetched([], shard) == {}


async def test_what_is_written_is_read_anew_and_nothing_that_was_read_meanwhile_is_kept() -> None:
    kept, shard = KeptViews(), Shard()
    await kept.fetched([1, 2], shard)
    reading = asyncio.ensure_future(kept.fetched([1, 2, 3], shard))
    await asyncio.sleep(0)  # it has read number 3, and is not back yet
    with kept.written([1, 3]):
        shard.held[1] = shard.held[3] = view("new")
        assert (await kept.fetched([1], shard))[1].text == "new"
    await reading
    shard.read.clear()
    found = await kept.fetched([1, 2, 3], shard)
    assert ([one.text for one in found.values()], shard.read) == (["new", "m2", "new"], [1, 3])


async def test_speakers_are_read_once_for_a_scope_and_follow_what_is_written() -> None:
    held, reads = {"Ana"}, list[Scope]()

    async def read(scope: Scope) -> frozenset[str]:
        reads.append(scope)
        await asyncio.sleep(0)
        return frozenset(held)

    cache, scope, session = SpeakerCache(), Scope(tenant=TENANT), Scope(tenant=TENANT, session_id="s2")
    for one in (scope, session, replace(scope, kinds=("plan",))):
        assert await cache.names(one, read) == {"Ana"}
    cache.note(changes(memory("b", "x", speaker="Bo", session_id="s1")))
    assert (await cache.names(scope, read), await cache.names(session, read)) == ({"Ana", "Bo"}, {"Ana"})
    cache.note(changes(memory("b", "y", speaker="Bo", session_id="s1")), {(TENANT, "Bo")})  # still a speaker
    assert await cache.names(scope, read) == {"Ana", "Bo"}
    assert reads == [scope, session]
    held.clear()
    cache.note((), {(TENANT, "Ana")})
    reading = asyncio.ensure_future(cache.names(scope, read))
    await asyncio.sleep(0)
    cache.note(())  # may be of what the read does not see any more
    await reading
    assert await cache.names(scope, read) == frozenset()
    assert reads[2:] == [scope, scope]


async def test_of_a_past_moment_nobody_is_known_who_spoke_later() -> None:
    async def read(_: Scope) -> frozenset[str]:
        return frozenset()

    cache, scope = SpeakerCache(), Scope(tenant=TENANT, as_of=NOW)
    assert await cache.names(scope, read) == set()
    cache.note(changes(memory("a", "x", speaker="Ana", occurred_at=NOW + 1), memory("b", "x", speaker="Bo")))
    assert await cache.names(scope, read) == {"Bo"}, "what has no time is of every moment"


async def test_speakers_that_others_may_change_are_asked_for_again_and_known_while_the_server_is_away() -> None:
    async def away(_: Scope) -> frozenset[str]:
        raise SourceError("away")

    async def read(_: Scope) -> frozenset[str]:
        return frozenset({"Ana"})

    cache, scope = SpeakerCache(fresh_s=0), Scope(tenant=TENANT)
    with pytest.raises(SourceError):
        await cache.names(scope, away)
    assert [await cache.names(scope, one) for one in (read, away)] == [{"Ana"}, {"Ana"}]


async def test_what_was_made_ahead_is_not_made_again_with_its_tokens_or_without() -> None:
    embedder = TokenEmbedder()
    ahead = VectorPrefetch(embedder)
    (plain,) = await ahead.vectors(["a bb"])
    ahead.with_tokens = True
    await ahead.vectors(["a bb", "ccc"])
    both = await ahead.vectors(["ccc", "dd", "a bb", "dd"])
    ahead.with_tokens = False
    await ahead.vectors(["a bb"])
    assert embedder.asked == ["a bb", "ccc", "dd"]
    assert plain.tokens is None
    assert [one.tokens is not None and len(one.tokens) for one in both] == [1, 1, 2, 1]
    np.testing.assert_array_equal(both[2].dense, plain.dense)


_BOUND_S = 60


class Panic(BaseException):
    """Like the panics of engines written in Rust."""


def fail(error: BaseException) -> NoReturn:
    raise error


@pytest.fixture
async def threads() -> AsyncGenerator[EngineThreads]:
    made = EngineThreads("the index", 1, name="test")
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
