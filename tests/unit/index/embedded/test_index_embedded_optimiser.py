"""When the embedded index is optimised."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from orion_recall.errors import SourceError
from orion_recall.index.embedded.index import EdgeOptimiser
from orion_recall.index.embedded.shard import LiveShard, ReplacedShard
from orion_recall.index.engine_threads import EngineThreads


class Held:
    """A shard of so many points, of which no copy can be made."""

    def __init__(self, count: int) -> None:
        self.count, self.copied = count, asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def copy_to(self, place: Path) -> Path:
        self._loop.call_soon_threadsafe(self.copied.set)
        raise SourceError("there is no shard")

    def discard_copy(self) -> None:
        """There is none."""


@pytest.mark.parametrize(
    ("count", "too_few", "enough"),
    [(1_000, 4_999, 5_000), (100_000, 49_999, 50_000), (1_000_000, 99_999, 100_000), (20_000_000, 99_999, 100_000)],
)
async def test_it_is_due_after_a_share_of_the_index_and_in_a_large_one_after_a_fixed_number(
    folder: Path, count: int, too_few: int, enough: int
) -> None:
    async def retired(shard: ReplacedShard) -> None:
        raise AssertionError(shard)

    held, writer = Held(count), EngineThreads("the index", 1, name="index-write")
    optimiser = EdgeOptimiser(folder, cast("LiveShard", held), writer, retired)
    try:
        optimiser.note(too_few)
        await writer.run(lambda: None)
        assert not held.copied.is_set()
        optimiser.note(enough - too_few)
        await asyncio.wait_for(held.copied.wait(), 60)
    finally:
        await optimiser.end()
        await writer.close()
