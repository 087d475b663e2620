"""Copies that several workers share: one writes at a time, and another takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from executor import until

from orion_recall.contracts import MemoryV1
from orion_recall.errors import RecordError, TransientSourceError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector, WriterLock
from orion_recall.postgres.pool import Connection, Pool, open_connection
from orion_recall.values import Change, Memory

COPY = "http://somewhere/shared"


class Server:
    """What a shared copy's server holds: its position and every change that was written, by whom."""

    def __init__(self) -> None:
        self.position = 0
        self.written: list[tuple[str, int]] = []
        self.writing = 0
        self.away: set[str] = set()


class SharedCopy:
    """One worker's view of it. Writing takes a while, and two at once are seen."""

    kind, shared, copy = "index", True, COPY
    damage: str | None = None
    stalled: str | None = None
    database_identity = "here"

    def __init__(self, worker: str, server: Server) -> None:
        self.worker, self.server, self.position = worker, server, 0

    async def open(self) -> None:
        if self.worker in self.server.away:
            raise TransientSourceError("away")
        self.position = self.server.position

    def expect(self, identity: str) -> None: ...
    async def check(self) -> None: ...
    async def adopt(self) -> None: ...
    async def close(self) -> None: ...

    async def apply(self, changes: Sequence[Change]) -> None:
        assert self.server.writing == 0, "two write at once"
        assert self.position == self.server.position
        self.server.writing += 1
        await asyncio.sleep(0.01)
        self.server.writing -= 1
        self.server.written += [(self.worker, change.position) for change in changes]
        self.position = self.server.position = changes[-1].position

    async def held(self) -> Mapping[int, int]:
        return {}

    async def remove(self, keys: Sequence[int]) -> None:
        raise AssertionError(keys)


@pytest.fixture
async def connection(database: str) -> AsyncGenerator[Connection]:
    opened = await open_connection(database, name="test", statement_timeout_ms=5000)
    yield opened
    await opened.close()


def memories(*names: str) -> list[Memory]:
    return [compose(MemoryV1.model_validate({"id": name, "text": f"text of {name}"}), "acme") for name in names]


@asynccontextmanager
async def projecting(pool: Pool, database: str, worker: str, server: Server) -> AsyncGenerator[Projector]:
    lock = WriterLock(database, kind="index", copy=COPY)
    projector = Projector(Record(pool), SharedCopy(worker, server), copy=COPY, lock=lock)
    task = asyncio.create_task(projector.run())
    try:
        yield projector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def holders(connection: Connection) -> int:
    return await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'orion-recall:turn'"
    )


async def test_one_has_the_turn_until_it_ends_or_its_connection_is_gone(
    database: str, connection: Connection
) -> None:
    first, second, other = (WriterLock(database, kind="index", copy=name) for name in ("a", "a", "b"))
    assert [await lock.acquire() for lock in (first, second, other, first)] == [True, False, True, True]
    await first.release()
    assert [await lock.acquire() for lock in (second, first)] == [True, False]
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'orion-recall:turn'"
    )

    async def taken_over() -> bool:
        try:
            return await first.acquire()
        except RecordError:  # its own connection was ended too
            return False

    await until(taken_over, "the first takes over")
    assert await said_no(second), "whoever has lost its turn finds out"
    for lock in (first, second, other):
        await lock.release()

    async def none_left() -> bool:
        return await holders(connection) == 0

    await until(none_left, "no connection is left behind")


async def said_no(lock: WriterLock) -> bool:
    try:
        return not await lock.acquire()
    except RecordError:
        return not await lock.acquire()


async def test_one_of_several_writes_and_another_takes_over_where_it_was(pool: Pool, database: str) -> None:
    record, server = Record(pool), Server()

    async def at(position: int | None) -> None:
        async def reached() -> bool:
            return server.position == position

        await until(reached, f"position {position}")

    async with projecting(pool, database, "second-to-none", server):
        await at((await record.store(memories(*"abc"))).position)
        async with projecting(pool, database, "waits", server) as waiting:
            await at((await record.store(memories(*"def"))).position)
            assert {worker for worker, _ in server.written} == {"second-to-none"}
            assert waiting.error is None
    assert [position for _, position in server.written] == sorted({position for _, position in server.written})
    async with projecting(pool, database, "heir", server):
        await at((await record.store(memories(*"ghi"))).position)

        async def told() -> bool:
            return [copy.position for copy in await record.copies()] == [server.position]

        await until(told, "the record knows how far the copy is")
    positions = [position for _, position in server.written]
    assert positions == sorted(set(positions)), "everything once and in order"
    assert {worker for worker, _ in server.written} == {"second-to-none", "heir"}
    (copy,) = await record.copies()
    assert (copy.copy, copy.kind, copy.position) == (COPY, "index", server.position)


async def test_a_copy_gives_signs_of_life_though_nothing_is_stored_or_its_server_is_away(
    pool: Pool, database: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.memory.replicas.projector._HEARTBEAT_EVERY_S", 0.0)
    record, server = Record(pool), Server()

    async def lives() -> bool:
        return [copy.is_gone for copy in await record.copies()] == [False]

    async with projecting(pool, database, "worker", server) as projector:
        await until(lives, "it is registered")
        assert await record.forget(COPY) == [], "it lives"
        server.away = {"worker"}

        async def waits() -> bool:
            return projector.error == "away"

        await until(waits, "its server is missed")
        await connection.execute("UPDATE projections SET position = 5, updated_at = now() - interval '1 hour'")
        await until(lives, "a sign of life while the server is away")
        (copy,) = await record.copies()
        assert copy.position == 5, "whoever cannot see the copy does not say where it is"
    await connection.execute("UPDATE projections SET updated_at = now() - interval '1 hour'")
    assert not await lives()
    assert await record.forget(COPY) == ["index"]
    assert await record.copies() == []
