"""The Postgres interface of orion-recall: typed pools, migrations, translated errors, quoted names.

`Pool`, `Connection` and `Row` are the types to annotate with: asyncpg itself ships none.

Our tables, views and sequences are in a schema of our own (ORION_POSTGRES_SCHEMA), and it alone is searched by our
connections: what others have put into the database is never taken for ours, whatever it is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.postgres.address import quote_identifier as quote_identifier
from orion_recall.postgres.address import quote_qualified as quote_qualified
from orion_recall.postgres.connections import CLOSE_TIMEOUT_S, connect, connect_options
from orion_recall.postgres.connections import close_connection as close_connection
from orion_recall.postgres.errors import POSTGRES_ERRORS as POSTGRES_ERRORS
from orion_recall.postgres.errors import is_connection_lost as is_connection_lost
from orion_recall.postgres.errors import is_refusal as is_refusal
from orion_recall.postgres.errors import reason as reason
from orion_recall.postgres.errors import sqlstate as sqlstate
from orion_recall.postgres.errors import translate as translate
from orion_recall.postgres.migrations import Migration as Migration
from orion_recall.postgres.migrations import migrate as migrate
from orion_recall.postgres.migrations import shipped_migrations as shipped_migrations
from orion_recall.postgres.types import Connection as Connection
from orion_recall.postgres.types import Pool as Pool
from orion_recall.postgres.types import Row as Row
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
