"""Connections that are held for searches: opened when they are needed, closed together."""

from __future__ import annotations

import asyncio

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from orion_recall.errors import QueryNotTaken, SourceError
from orion_recall.postgres import pool
from orion_recall.postgres.pool import HeldConnections


class Server:
    """Answers when as many searches wait as it has connections, and lets go when all of these say goodbye."""

    def __init__(self, connections: int) -> None:
        self.searches, self.goodbyes = asyncio.Barrier(connections), connections
        self.closed = 0

    async def open(
        self, dsn: str, *, name: str, statement_timeout_ms: int, for_external_tables: bool
    ) -> Connection:
        return Connection(self)


class Connection:
    """One connection to it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def fetch(self, statement: str, *values: object) -> list[object]:
        await self._server.searches.wait()
        return []

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        raise AssertionError("it is whole")

    async def close(self) -> None:
        self._server.goodbyes -= 1
        for _ in range(1000):
            if self._server.goodbyes == 0:
                self._server.closed += 1
                return
            await asyncio.sleep(0)


async def test_what_is_held_is_closed_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(4)
    monkeypatch.setattr(pool, "open_connection", server.open)
    held = HeldConnections("postgresql://nowhere/x", name="test", most=4)
    await asyncio.gather(*(held.fetch("searching", "SELECT 1", []) for _ in range(4)))
    await held.close()
    assert server.closed == 4


class Refusing(Connection):
    """One whose server refuses what is sent."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Server(1))
        self.error = error

    async def fetch(self, statement: str, *values: object) -> list[object]:
        raise self.error


@pytest.mark.parametrize(
    ("refusal", "is_the_querys_fault"),
    [
        (asyncpg.InvalidTextRepresentationError("invalid input syntax for type uuid"), True),
        (asyncpg.DataError("invalid input for query argument $1"), True),
        (asyncpg.UndefinedColumnError('column "told" does not exist'), False),
    ],
)
async def test_a_value_that_is_refused_is_the_querys_fault_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception, *, is_the_querys_fault: bool
) -> None:
    async def opened(*_: object, **__: object) -> Connection:
        return Refusing(refusal)

    monkeypatch.setattr(pool, "open_connection", opened)
    held = HeldConnections("postgresql://nowhere/x", name="test")
    with pytest.raises(SourceError) as raised:
        await held.fetch("searching", "SELECT $1::uuid", ["no uuid"])
    assert isinstance(raised.value, QueryNotTaken) is is_the_querys_fault
