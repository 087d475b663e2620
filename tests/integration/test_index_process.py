"""The process of a worker's index dies under it: queries go on, and nothing of the record is missing afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from executor import until

from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import open_pool
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.recall.types import Recalled
from orion_recall.serving.backends import Opened, open_sources, own_copy
from orion_recall.serving.index_process.index import IndexProcess
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from orion_recall.values import Change

TENANT = "default"


@pytest.fixture
async def record(database: str) -> AsyncGenerator[Record]:
    pool = await open_pool(database, name="index-process", max_size=4)
    yield Record(pool)
    await pool.close()


@pytest.fixture
def data_dir() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="orion-test-", dir="/tmp") as folder:
        yield Path(folder)


async def stored(record: Record, numbers: range) -> None:
    told = [MemoryV1(id=f"m{one}", text=f"Ana oiled crane {one} in Bergen.", speaker="Bo") for one in numbers]
    await record.store([compose(one, TENANT) for one in told])


async def answer(opened: Opened, question: str) -> Recalled:
    profile = loaded_profiles(None)["reflect.v1"].profile.model_copy(update={"source_timeout_ms": 60_000})
    return await recall(RecallQueryV1(fragment=question), profile, opened.sources, timeout_s=60.0)


async def test_a_killed_process_costs_its_hits_for_a_while_and_nothing_of_the_record(
    record: Record, database: str, data_dir: Path
):
    await stored(record, range(40))
    settings = Settings.read(data_dir=data_dir, postgres_dsn=database, index_process="yes")
    async with open_sources(settings, serves=True) as opened:
        index = opened.index
        assert isinstance(index, IndexProcess)
        projector = Projector(record, index, copy=own_copy(settings))
        applying = asyncio.create_task(projector.run())

        async def is_whole() -> bool:
            return projector.lag == 0 and projector.error is None and index.pid is not None

        try:
            await until(is_whole, "all is in the index")
            assert (await answer(opened, "Who oiled crane 7?")).outcome == "ok"
            assert index.pid is not None
            os.kill(index.pid, signal.SIGKILL)

            async def is_missed() -> bool:
                return index.pid is None

            await until(is_missed, "it is missed")
            meanwhile = await answer(opened, "Who oiled crane 7?")
            assert meanwhile.outcome == "degraded"
            assert "m7" in {one.scored.memory.id for one in meanwhile.selection.items}, "of the record itself"
            await stored(record, range(40, 50))
            projector.wake()
            await until(is_whole, "all is in the index again")

            async def is_answered() -> bool:  # the lag may still be that of the process before
                return (await answer(opened, "Who oiled crane 7?")).outcome == "ok"

            await until(is_answered, "the index answers again")
            await until(is_whole, "all is in the index again")
            assert set(await index.held()) == {memory_key(TENANT, f"m{one}") for one in range(50)}
        finally:
            applying.cancel()
            await asyncio.gather(applying, return_exceptions=True)


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
