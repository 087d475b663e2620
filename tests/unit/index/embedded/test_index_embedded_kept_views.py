"""Memories that an index keeps after it has read them: never one that was written since then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from orion_recall.index.embedded.reads import KeptViews
from orion_recall.values import MemoryView


def view(text: str, passages: tuple[int, ...] = ()) -> MemoryView:
    return MemoryView(id=text, text=text, text_hash="", simhash=0, passages=passages)


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


async def test_there_is_a_bound_to_their_number_and_the_last_asked_for_stay() -> None:
    kept, shard = KeptViews(most=10), Shard(100)
    for key in range(100):
        await kept.fetched([0, key], shard)
    assert shard.read.count(0) < 3, "asked for each time, it stays"
    shard.read.clear()
    await kept.fetched(range(100), shard)
    assert 80 <= len(shard.read) < 100
