"""Databases as they are met, with tables of others of any name."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.postgres.pool import Connection

_RELATIONS = """
SELECT c.relname::text AS name, c.relkind::text AS kind
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'v', 'S') ORDER BY 1
"""


@asynccontextmanager
async def visitor(dsn: str) -> AsyncGenerator[Connection]:
    """Somebody who knows nothing of our schema: names are looked up in `public`."""
    opened: Any = await asyncpg.connect(dsn, server_settings={"search_path": '"$user", public'})  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:
        yield connection
    finally:
        await connection.close()


async def forget_our_path(connection: Connection) -> None:
    """The database as it is on a server of others: the embedded one looks into our schema by itself."""
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    await connection.execute(f'ALTER DATABASE {name} SET search_path = "$user", public')


async def relations(connection: Connection, schema: str) -> dict[str, str]:
    """Tables (r), views (v) and sequences (S) of a schema, by name."""
    return {row["name"]: row["kind"] for row in await connection.fetch(_RELATIONS, schema)}


async def contents(connection: Connection, schema: str) -> dict[str, list[str]]:
    """All rows of all tables and views of a schema, as text."""
    names = [name for name, kind in (await relations(connection, schema)).items() if kind != "S"]
    return {
        name: [row[0] for row in await connection.fetch(f'SELECT t::text FROM "{schema}"."{name}" AS t ORDER BY 1')]
        for name in names
    }
