"""Connections to Postgres that are reserved for searches, apart from any pool.

A pool waits for a connection whose search was cancelled; here that one is cut off at once, so that a server that
hangs keeps no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from orion_recall.errors import QueryNotTaken, RecordError, SourceError, TransientSourceError
from orion_recall.postgres.pool import (
    Connection,
    Row,
    close_connection,
    is_connection_lost,
    is_refusal,
    open_connection,
    translate,
)
from orion_recall.tasks import Slots


class HeldConnections:
    """At most `most` connections to one address, opened when they are needed.

    With `for_external_tables` names without a schema are looked up where the login looks them up.
    """

    def __init__(
        self, dsn: str, *, name: str, most: int = 4, timeout_ms: int = 5000, for_external_tables: bool = False
    ) -> None:
        self._dsn, self._name, self._timeout_ms = dsn, name, timeout_ms
        self._for_external_tables = for_external_tables
        self._idle: list[Connection] = []
        self._slots = Slots(most)

    async def fetch(self, doing: str, statement: str, values: Sequence[object]) -> Sequence[Row]:
        """The statement's rows. TransientSourceError when Postgres is away, SourceError when it refuses.

        QueryNotTaken when it refuses one of the values: another query has others.
        """
        async with self._slots:
            try:
                connection = await self._connection()
            except RecordError as error:
                raise TransientSourceError(str(error)) from error
            whole = False
            try:
                with translate(doing):
                    rows = await connection.fetch(statement, *values)
                whole = True
                return rows
            except RecordError as error:
                whole = not (is_connection_lost(error) or connection.is_closed())
                if whole and error.__cause__ is not None and is_refusal(error.__cause__):
                    raise QueryNotTaken(str(error)) from error
                raise (SourceError if whole else TransientSourceError)(str(error)) from error
            finally:
                # Cancelled in the middle it may still be waiting for rows that nobody will read.
                if whole:
                    self._idle.append(connection)
                else:
                    connection.terminate()

    async def close(self) -> None:
        """Close what is held, all at once: a server that says nothing costs one `CLOSE_TIMEOUT_S`."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(close_connection(connection) for connection in idle))

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await open_connection(
            self._dsn,
            name=self._name,
            statement_timeout_ms=self._timeout_ms,
            for_external_tables=self._for_external_tables,
        )
