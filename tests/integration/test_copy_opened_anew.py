"""A copy is opened anew while its changes are read: nothing that it lacks is passed over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import open_pool
from orion_recall.values import Change

TENANT = "default"


@pytest.fixture
async def record(database: str) -> AsyncGenerator[Record]:
    pool = await open_pool(database, name="opened-anew", max_size=4)
    yield Record(pool)
    await pool.close()


async def stored(record: Record, numbers: range) -> None:
    told = [MemoryV1(id=f"m{one}", text=f"Ana oiled crane {one} in Bergen.", speaker="Bo") for one in numbers]
    await record.store([compose(one, TENANT) for one in told])


class _Reopened:
    """A copy that is opened anew, at an earlier position, while the page after its position is read."""

    kind, shared, copy, damage, stalled = "index", False, "here", None, None

    def __init__(self, record: Record, position: int) -> None:
        self._record, self.position = record, position
        self.applied: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    async def changes(self, after: int, limit: int) -> Sequence[Change]:
        page = await self._record.changes(after, limit)
        if not self.applied:
            self.position = 0
        return page

    async def apply(self, changes: Sequence[Change]) -> None:
        self.applied += [one.position for one in changes]
        self.position = changes[-1].position


async def test_a_page_that_was_read_before_a_copy_was_opened_anew_is_not_applied(record: Record):
    await stored(record, range(10))
    everything = [one.position for one in await record.changes(0, 100)]
    copy = _Reopened(record, everything[4])
    projector = Projector(cast("Record", copy), cast("Any", copy), copy="here")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            await projector.catch_up()
    assert copy.applied == everything
