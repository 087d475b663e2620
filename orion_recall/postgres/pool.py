"""The Postgres interface of orion-recall: pools, held connections, the schema, translated errors, quoted names.

`Pool`, `Connection` and `Row` are the types to annotate with: asyncpg itself ships none.

Our tables, views and sequences are in a schema of our own (ORION_POSTGRES_SCHEMA), and it alone is searched by our
connections: what others have put into the database is never taken for ours, whatever it is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import QueryNotTaken, RecordError, SourceError, TransientSourceError
from orion_recall.postgres.address import quote_identifier as quote_identifier
from orion_recall.postgres.address import quote_qualified as quote_qualified
from orion_recall.postgres.connections import CLOSE_TIMEOUT_S, connect, connect_options
from orion_recall.postgres.connections import Connection as Connection
from orion_recall.postgres.connections import Pool as Pool
from orion_recall.postgres.connections import Row as Row
from orion_recall.postgres.connections import close_connection as close_connection
from orion_recall.postgres.errors import POSTGRES_ERRORS as POSTGRES_ERRORS
from orion_recall.postgres.errors import is_connection_lost as is_connection_lost
from orion_recall.postgres.errors import is_refusal as is_refusal
from orion_recall.postgres.errors import reason as reason
from orion_recall.postgres.errors import sqlstate as sqlstate
from orion_recall.postgres.errors import translate as translate
from orion_recall.postgres.schema import Migration as Migration
from orion_recall.postgres.schema import migrate as migrate
from orion_recall.postgres.schema import shipped_migrations as shipped_migrations
from orion_recall.tasks import Slots
from orion_recall.text.normal import storable, storable_json

ACQUIRE_TIMEOUT_S = 5.0


async def open_pool(
    dsn: str,
    *,
    name: str,
    min_size: int = 0,
    max_size: int = 4,
    statement_timeout_ms: int = 30_000,
    statement_cache_size: int | None = None,
) -> Pool:
    """A pool whose connections speak JSON as Python values, keep UTC and give up on slow statements.

    With `min_size` 0 it opens while Postgres is away. `statement_cache_size` 0 (here, or as a parameter of
    the DSN) is for PgBouncer: no statement is named, and slow statements are stopped by this side alone, because a
    pooler refuses `statement_timeout` at the start of a session. A connection that is given back is not reset: what
    is set in a session must be set for one transaction.
    """
    dsn, options = connect_options(dsn, name, statement_timeout_ms, statement_cache_size)
    # We change nothing of a session: what asyncpg would send at every release is a round trip for nothing, and
    # behind a pooler it falls on whichever session is free. A transaction that is open is rolled back all the same.
    options["reset"] = _leave_as_it_is
    with translate("opening Postgres"):
        opened = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            dsn, min_size=min_size, max_size=max_size, init=_set_codecs, connect=connect, **options
        )
    return cast("Pool", opened)


async def close_pool(pool: Pool) -> None:
    """Closes the pool; connections whose server says nothing are cut after `CLOSE_TIMEOUT_S`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await pool.close()


async def open_connection(
    dsn: str, *, name: str, statement_timeout_ms: int, for_external_tables: bool = False
) -> Connection:
    """One connection set up as a pool's are, for those that hold it.

    With `for_external_tables` names without a schema are looked up where the login looks them up.
    """
    dsn, options = connect_options(dsn, name, statement_timeout_ms, None, in_our_schema=not for_external_tables)
    with translate("opening Postgres"):
        opened: object = await connect(dsn, **options)
        await _set_codecs(opened)
    return cast("Connection", opened)


@asynccontextmanager
async def borrow(pool: Pool, doing: str = "using Postgres") -> AsyncGenerator[Connection]:
    """A connection of the pool, waited for `ACQUIRE_TIMEOUT_S` at most; errors come out as RecordError."""
    with translate(doing):
        async with pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection:
            yield connection


async def _set_codecs(connection: Any) -> None:
    for type_name in ("json", "jsonb"):
        await connection.set_type_codec(
            type_name, schema="pg_catalog", encoder=to_json, decoder=json.loads, format="text"
        )


async def _leave_as_it_is(connection: object) -> None:
    """The reset of a session in which nothing was set."""


def to_json(value: object) -> str:
    """The value as JSON that Postgres can hold: no NUL, no lone surrogates; NaN and infinity are refused."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if "\\u0000" in text:  # seldom, and it may be a harmless escaped backslash: look properly
        text = json.dumps(storable_json(value), ensure_ascii=False, separators=(",", ":"))
    return storable(text)


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
