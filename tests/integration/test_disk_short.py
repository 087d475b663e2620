"""A disk that is nearly full: copies stop and say so, stores are recorded, and all goes on once there is room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from executor import until
from serving import caught_up, started
from test_status_workers import settings as settings  # a fixture

from orion_recall.bus.connect import connect
from orion_recall.cli.serving.status import problems_of, read_workers
from orion_recall.client import RecallClient
from orion_recall.decisions.log import let_analysts_in
from orion_recall.engines import disk_space, embedded
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import BusRefused, EngineError, ReplyTimeout
from orion_recall.postgres.schema import migrate
from orion_recall.serving.observe import heartbeat_fields
from orion_recall.settings import Settings

MIB = 1 << 20


class Disk:
    """The free space that is read of every folder but those of the engines that other tests share."""

    def __init__(self) -> None:
        self.free, self._really = 1 << 40, disk_space.free_bytes

    def read(self, folder: Path) -> int:
        is_shared = any(part.startswith(f"orion-tests-{os.getpid()}-") for part in folder.parts)
        return self._really(folder) if is_shared else self.free


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that says what the test wants, looked at often."""
    one = Disk()
    monkeypatch.setattr(disk_space, "free_bytes", one.read)
    monkeypatch.setattr(heartbeat_fields, "_EVERY_S", 0.05)
    monkeypatch.setattr(embedded, "_EVERY_S", 0.05)
    return one


async def test_copies_stop_say_so_and_go_on_while_stores_are_recorded(settings: Settings, disk: Disk) -> None:
    url = settings.bus_url or ""
    async with (
        started(settings) as service,
        RecallClient.connect(url, prefix=settings.prefix) as client,
        connect(url) as redis,
    ):
        first = await client.store([{"id": "m-1", "text": "The harbour crane needs a new gearbox."}])
        await caught_up(service, first.position or 0)
        disk.free = 255 * MIB

        assert (await client.recall("What does the crane need?")).bundle.stats.outcome == "ok", (
            "short, and not behind"
        )
        receipt = await client.store([{"id": "m-2", "text": "The gearbox of the crane came on Monday."}])
        assert receipt.stored == 1

        async def stalled() -> bool:
            return all(one.projection.stalled and one.lag for one in service.background.projectors)

        await until(stalled, "both copies wait")
        reply = await client.recall("What does the crane need?")
        assert reply.bundle.stats.outcome == "degraded"
        assert "m-1" in {one.id for one in reply.bundle.items}

        async def told() -> bool:
            (worker,) = await read_workers(redis, settings, [settings.instance]) or [{}]
            return len([what for what, _ in problems_of(worker) if "short disk" in what]) == 2

        await until(told, "status says it of index and graph")
        assert {one.name: bool(one.why) for one in service.disks} == {"index": True, "graph": True}

        disk.free = 300 * MIB
        await caught_up(service, receipt.position or 0)

        async def go_on() -> bool:  # a copy says so once the step that brought it there has ended
            return not any(one.projection.stalled for one in service.background.projectors)

        await until(go_on, "both copies are written again")
        assert (await client.recall("What does the crane need?")).bundle.stats.outcome == "ok"

        async def untold() -> bool:
            (worker,) = await read_workers(redis, settings, [settings.instance]) or [{}]
            return not [what for what, _ in problems_of(worker) if "short disk" in what]

        await until(untold, "and no more, once there is room")


async def can_write(dsn: str) -> bool:
    session = cast("Any", await asyncpg.connect(dsn))  # pyright: ignore
    try:
        await session.execute("CREATE TABLE IF NOT EXISTS counted (at timestamptz)")
    except asyncpg.exceptions.ReadOnlySQLTransactionError:
        return False
    finally:
        await session.close()
    return True


async def test_a_new_database_on_a_full_disk_is_refused_with_what_to_do(data_dir: Path, disk: Disk) -> None:
    disk.free = 63 * MIB
    with pytest.raises(EngineError, match="63 MiB are free, and a new database needs 64 MiB: make room"):
        async with EmbeddedEngines.start(data_dir, valkey=False):
            pass


@pytest.mark.slow
async def test_the_bus_refuses_callers_first_and_postgres_writes_last(data_dir: Path, disk: Disk) -> None:
    async with EmbeddedEngines.start(data_dir, min_free_bytes=256 * MIB) as engines:
        engines.supervise()
        await migrate(engines.postgres_dsn)

        async def taken() -> bool:
            async with RecallClient.connect(engines.redis_url) as client:
                try:
                    await client.store([{"id": "m-1", "text": "Is there room?"}], timeout_s=0.2)
                except BusRefused as error:
                    assert "disk is short" in str(error)
                    return False
                except ReplyTimeout:  # nobody serves
                    return True
            return True

        assert (await taken(), await can_write(engines.postgres_dsn)) == (True, True)
        disk.free = 127 * MIB

        async def refused() -> bool:
            return not await taken()

        await until(refused, "the bus refuses")
        assert await can_write(engines.postgres_dsn), "what the bus has taken can be recorded"
        disk.free = 63 * MIB

        async def read_only() -> bool:
            return not await can_write(engines.postgres_dsn)

        await until(read_only, "Postgres takes no writes")
        await engines.postgres.stop()
        await engines.postgres.start()
        assert not await can_write(engines.postgres_dsn), "nor after a restart"
        await let_analysts_in(engines.postgres_dsn)  # as `up` does at each start
    async with EmbeddedEngines.start(data_dir) as engines:
        assert await can_write(engines.postgres_dsn), "where the disk is not watched"
    disk.free = 1 << 40
    async with EmbeddedEngines.start(data_dir, min_free_bytes=256 * MIB) as engines:
        assert await can_write(engines.postgres_dsn), "with room again it is writable from the start"
