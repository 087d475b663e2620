"""The schema of record and decision log: its SQL files, applied under a lock, and the rights of workers on it.

Each of the two parts has one file with all of its tables, and later files beside it, by number (`0002_names.sql`).
The rights stand beside the schema, in `memory/rights.sql` and `decisions/rights.sql`: who adds a table says there
what a worker does with it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import LiteralString, NamedTuple, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import RecordError
from orion_recall.postgres.address import quote_identifier, read_address
from orion_recall.postgres.pool import (
    Connection,
    close_connection,
    connect,
    connect_options,
    first_line,
    open_connection,
    sqlstate,
    translate,
)

WORKER_ROLE = "orion_worker"

_PARTS = ("memory", "decisions")
# Any fixed number: it is the name of the lock under which the schema is made.
_SCHEMA_LOCK = 7_402_116_889
# Reading which files are applied, and applying one: an index over a large table takes its time.
_LOOK_TIMEOUT_S, _APPLY_TIMEOUT_S = 30.0, 3600.0
_RIGHTS_TIMEOUT_MS = 30_000
# A schema that a role may not use is as if it were not there, where names are made.
_NO_RIGHT, _NO_SCHEMA = "42501", "3F000"
# A name is taken, or is not of what our files make: a relation, function or other object, its kind or its columns.
_OF_OTHERS = ("42P07", "42710", "42723", "42809", "42P16", "42701", "42703", "42P01")
# The first file of a database from before 0.1.0.
_BEFORE_0_1 = "memory/0001_memories.sql"

# Not by to_regclass: after a wait for the lock it may still answer from the session's catalogue cache.
_EXISTS: LiteralString = """
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = 'orion_migrations'
"""
_CREATE_MIGRATIONS: LiteralString = """
CREATE TABLE orion_migrations (
    name text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE orion_migrations IS 'Schema files that were applied.';
"""
_INSERT: LiteralString = "INSERT INTO orion_migrations (name, sha256) VALUES ($1, $2)"
_ROLE_EXISTS: LiteralString = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)"
# Asked first: a GRANT by somebody else who has some right on the table only warns that it gave nothing.
_OWNS_THE_SCHEMA: LiteralString = """
SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'orion_migrations'::regclass
"""
# To see that nothing is left to apply.
_MIGRATIONS_RIGHTS = f"""
REVOKE ALL ON orion_migrations FROM {WORKER_ROLE};
GRANT SELECT ON orion_migrations TO {WORKER_ROLE};
"""


class Migration(NamedTuple):
    """One SQL file of the schema."""

    name: str
    sql: str
    sha256: str


def shipped_migrations() -> list[Migration]:
    """The schema files of this version: memory, then decisions; of each its tables, then later files by number."""
    found: list[Migration] = []
    for part in _PARTS:
        entries = [one for one in (files("orion_recall") / part / "schema").iterdir() if one.name.endswith(".sql")]
        for entry in sorted(entries, key=lambda one: (one.name[0].isdecimal(), one.name)):
            sql = entry.read_text("utf-8")
            digest = hashlib.sha256(sql.encode()).hexdigest()
            found.append(Migration(name=f"{part}/{entry.name}", sql=sql, sha256=digest))
    return found


async def migrate(dsn: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Applies the schema files that are pending in our schema, and gives their names in order.

    Our schema is made when it is absent. One transaction a file. Several processes may start together: each file is
    applied under a lock, after a second look. When nothing is pending nothing but two SELECTs are run, so the role
    needs no rights to create. RecordError: Postgres is away, the role may not create, or the schema is of an
    earlier or a later version, or of a file that has been changed.
    """
    wanted = shipped_migrations() if migrations is None else migrations
    schema = read_address(dsn).schema
    # Our schema may not be there yet.
    dsn, options = connect_options(dsn, "migrate", 0, in_our_schema=False)
    options["command_timeout"] = _APPLY_TIMEOUT_S
    with translate("applying the schema"):
        opened: object = await connect(dsn, **options)
        connection = cast("Connection", opened)
        try:
            return await _Schema(connection, schema).bring_up(wanted)
        finally:
            await close_connection(connection)


async def grant_worker_rights(dsn: str) -> bool:
    """Give the role `orion_worker` its rights and no others, as the schema's owner; False when there is no role.

    In one transaction, so that a worker that runs meanwhile misses none. RecordError when Postgres is away, or when
    this login does not own the tables.
    """
    schema = quote_identifier(read_address(dsn).schema)
    with translate("giving a worker its rights"):
        connection = await open_connection(dsn, name="rights", statement_timeout_ms=_RIGHTS_TIMEOUT_MS)
        try:
            if not await connection.fetchval(_ROLE_EXISTS, WORKER_ROLE):
                return False
            if not await connection.fetchval(_OWNS_THE_SCHEMA):
                raise RecordError(
                    f"this login does not own the tables, so it cannot give {WORKER_ROLE} its rights: let "
                    "ORION_POSTGRES_DSN name the role that applied the schema"
                )
            shipped = [(files("orion_recall") / part / "rights.sql").read_text("utf-8") for part in _PARTS]
            async with connection.transaction():
                await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {WORKER_ROLE}")
                for sql in (*shipped, _MIGRATIONS_RIGHTS):
                    await connection.execute(sql)
            return True
        finally:
            await close_connection(connection)


class _Schema:
    """Our schema in one database."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name, self._quoted = connection, name, quote_identifier(name)

    async def bring_up(self, wanted: Sequence[Migration]) -> list[str]:
        async with self._advised("look what was applied"), asyncio.timeout(_LOOK_TIMEOUT_S):
            # What another process is making may be seen and not be there yet: then it is as if nothing was.
            applied: dict[str, str] = {}
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                applied = await self._applied()
        self._check(wanted, applied)
        pending = [migration for migration in wanted if migration.name not in applied]
        return [migration.name for migration in pending if await self._apply(migration, wanted)]

    async def _applied(self) -> dict[str, str]:
        if not await self._connection.fetchval(_EXISTS, self._name):
            return {}
        rows = await self._connection.fetch(f"SELECT name, sha256 FROM {self._quoted}.orion_migrations")  # noqa: S608
        return {row["name"]: row["sha256"] for row in rows}

    def _check(self, wanted: Sequence[Migration], applied: Mapping[str, str]) -> None:
        known = {one.name: one.sha256 for one in wanted}
        if _BEFORE_0_1 in applied.keys() - known.keys():
            raise RecordError(
                f"the tables in the schema {self._name} were made by a version before 0.1.0. Export the memories "
                "with that version (`orion-recall memory export`), start this one on a new database, or with "
                "another ORION_POSTGRES_SCHEMA, and import them (`orion-recall memory import`)"
            )
        if later := sorted(applied.keys() - known.keys()):
            raise RecordError(
                f"the tables in the schema {self._name} are of a later version ({later[0]} was applied): start "
                "that version, or one after it"
            )
        if changed := [name for name, digest in applied.items() if digest != known[name]]:
            raise RecordError(
                f"{changed[0]} was changed after it had been applied to this database. Schema files are never "
                "edited: restore the file as it was and put the change into a new one"
            )

    async def _apply(self, migration: Migration, wanted: Sequence[Migration]) -> bool:
        async with self._advised(f"apply {migration.name}"), self._connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            if await self._connection.fetchval(_EXISTS, self._name):
                # Only the schema's owner can take it: a number could be held by every login of the database.
                await self._connection.execute(
                    f"LOCK TABLE {self._quoted}.orion_migrations IN SHARE ROW EXCLUSIVE MODE"
                )
            else:
                await self._connection.execute(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
            await self._connection.execute(f"SET LOCAL search_path TO {self._quoted}")
            applied = await self._applied()
            self._check(wanted, applied)
            if migration.name in applied:
                return False
            if not applied:
                # Asked first: where it is there, IF NOT EXISTS still wants the right to make one.
                if not await self._connection.fetchval(
                    "SELECT count(*) FROM pg_namespace WHERE nspname = $1", self._name
                ):
                    await self._connection.execute(f"CREATE SCHEMA {self._quoted}")
                await self._connection.execute(_CREATE_MIGRATIONS)
            await self._connection.execute(migration.sql)
            await self._connection.execute(_INSERT, migration.name, migration.sha256)
        return True

    @asynccontextmanager
    async def _advised(self, what: str) -> AsyncGenerator[None]:
        try:
            yield
        except asyncpg.PostgresError as error:
            if sqlstate(error) in _OF_OTHERS:
                raise RecordError(
                    f"cannot {what} ({first_line(error)}): the schema {self._name} is not as orion-recall makes "
                    "it. Where tables of others are in it, name one that is free (ORION_POSTGRES_SCHEMA); where "
                    "the tables are ours, bring them back as they were"
                ) from error
            if sqlstate(error) not in (_NO_RIGHT, _NO_SCHEMA):
                raise
            role = await self._connection.fetchval("SELECT quote_ident(current_user)")
            raise RecordError(
                f"the role {role} may not {what} ({first_line(error)}): let the owner of the schema {self._name} "
                f"run `orion-recall migrate`. Or, where there is no such schema yet: CREATE SCHEMA {self._quoted} "
                f"AUTHORIZATION {role}; where there is: GRANT USAGE, CREATE ON SCHEMA {self._quoted} TO {role}"
            ) from error
