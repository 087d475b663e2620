"""Migrations: the SQL files of record and decision log, and the runner of the pending ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import RecordError
from orion_recall.postgres.address import quote_identifier, read_address
from orion_recall.postgres.connections import close_connection, connect, connect_options
from orion_recall.postgres.errors import first_line, sqlstate, translate
from orion_recall.postgres.schema_move import OldTables, find_old_tables, move_tables
from orion_recall.postgres.types import Connection

_SCHEMA_FOLDERS = ("memory", "decisions")
# Any fixed number: it is the name of the lock under which the first migration runs.
_MIGRATION_LOCK = 7_402_116_889
# Reading which files are applied, and applying one: an index over a large table takes its time.
_LOOK_TIMEOUT_S, _MIGRATION_TIMEOUT_S = 30.0, 3600.0
# A schema that a role may not use is as if it were not there, where names are made.
_NO_RIGHT, _NO_SCHEMA = "42501", "3F000"
# A name is taken, or is not of what our files make: a relation, function or other object, its kind or its columns.
_OF_OTHERS = ("42P07", "42710", "42723", "42809", "42P16", "42701", "42703", "42P01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One SQL file of the schema."""

    name: str
    sql: str
    sha256: str


def shipped_migrations() -> list[Migration]:
    """The schema files of this version: by folder (memory, then decisions), then by number."""
    found: list[Migration] = []
    for folder in _SCHEMA_FOLDERS:
        schema = files("orion_recall") / folder / "schema"
        if not schema.is_dir():
            continue
        for entry in sorted(schema.iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".sql"):
                sql = entry.read_text("utf-8")
                digest = hashlib.sha256(sql.encode()).hexdigest()
                found.append(Migration(name=f"{folder}/{entry.name}", sql=sql, sha256=digest))
    return found


async def migrate(dsn: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Applies the schema files that are pending in our schema, and gives the names of what was done, in order.

    Our schema is made when it is absent. Tables that an earlier version made elsewhere are moved there first, all
    in one transaction. One transaction a file. Several processes may start together: each step is taken under a
    lock, after a second look. When nothing is pending nothing but two SELECTs are run, so the role needs no rights
    to create. RecordError: Postgres is away, the role may not create, or an applied file has been changed.
    """
    wanted = shipped_migrations() if migrations is None else migrations
    schema = read_address(dsn).schema
    # Where the login looks is where an earlier version made its tables.
    dsn, options = connect_options(dsn, "migrate", 0, None, in_our_schema=False)
    options["command_timeout"] = _MIGRATION_TIMEOUT_S
    with translate("applying the schema"):
        opened: object = await connect(dsn, **options)
        connection = cast("Connection", opened)
        try:
            return await _Schema(connection, schema).bring_up(wanted)
        finally:
            await close_connection(connection)


class _Schema:
    """Our schema in one database."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name, self._quoted = connection, name, quote_identifier(name)

    async def bring_up(self, wanted: Sequence[Migration]) -> list[str]:
        applied, old = await self._look()
        done: list[str] = []
        if old is not None:
            if await self._take_over(old):
                done.append(f"the move of all tables from the schema {old.schema} to {self._name}")
            applied = await self._applied()
        _check_unchanged(wanted, applied)
        pending = [migration for migration in wanted if migration.name not in applied]
        return done + [migration.name for migration in pending if await self._apply(migration)]

    async def _look(self) -> tuple[dict[str, str], OldTables | None]:
        """The files that were applied to our schema; where none was, the tables of an earlier version.

        What another process is making or moving may be seen and not be there yet, or no more: where no files are
        found the look is taken anew under the lock.
        """
        async with self._advised("look what was applied"):
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                async with asyncio.timeout(_LOOK_TIMEOUT_S):
                    if applied := await self._applied():
                        return applied, None
            async with self._alone(), asyncio.timeout(_LOOK_TIMEOUT_S):
                if applied := await self._applied():
                    return applied, None
                shipped = {one.name: one.sha256 for one in shipped_migrations()}
                return {}, await find_old_tables(self._connection, self._name, shipped, mark=_MARK)

    async def _applied(self) -> dict[str, str]:
        """The files that were applied to our schema, and their digests; none where it is not there.

        Not by to_regclass: after a wait for the lock it may still answer from the session's catalogue cache.
        """
        if not await self._connection.fetchval(_EXISTS, self._name):
            return {}
        rows = await self._connection.fetch(f"SELECT name, sha256 FROM {self._quoted}.orion_migrations")  # noqa: S608
        return {row["name"]: row["sha256"] for row in rows}

    async def _apply(self, migration: Migration) -> bool:
        """Whether this process applied it; False when another one was quicker."""
        async with self._advised(f"apply {migration.name}"), self._changing():
            applied = await self._applied()
            if migration.name in applied:
                _check_unchanged([migration], applied)
                return False
            if not applied:
                await self._make_schema()
                await self._connection.execute(_CREATE_MIGRATIONS)
                await self._connection.execute(_COMMENT)
            await self._connection.execute(migration.sql)
            await self._connection.execute(_INSERT, migration.name, migration.sha256)
        return True

    async def _take_over(self, old: OldTables) -> bool:
        """Whether this process moved the tables of an earlier version; False when another one was quicker."""
        stay = f". Or let everything stay where it is: ORION_POSTGRES_SCHEMA={old.schema}"
        async with (
            self._advised(f"move the tables of an earlier version from {old.schema}", stay),
            self._changing(),
        ):
            if await self._applied():
                return False
            await self._make_schema()
            files = [one.sql for one in shipped_migrations() if one.name in old.applied]
            await move_tables(self._connection, old, self._name, [_CREATE_MIGRATIONS, *files])
            await self._connection.execute(_COMMENT)
        return True

    async def _make_schema(self) -> None:
        # Asked first: where it is there, IF NOT EXISTS still wants the right to make one.
        if not await self._connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", self._name):
            await self._connection.execute(f"CREATE SCHEMA {self._quoted}")

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """A transaction under the lock."""
        async with self._connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            if await self._connection.fetchval(_EXISTS, self._name):
                # Only the schema's owner can take it: a number could be held by every login of the database.
                await self._connection.execute(
                    f"LOCK TABLE {self._quoted}.orion_migrations IN SHARE ROW EXCLUSIVE MODE"
                )
            else:
                await self._connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """A transaction under the lock that makes and finds names in our schema alone."""
        async with self._alone():
            await self._connection.execute(f"SET LOCAL search_path TO {self._quoted}")
            yield

    @asynccontextmanager
    async def _advised(self, what: str, hint: str = "") -> AsyncGenerator[None]:
        """A missing right, or names of others in our schema, come out as a RecordError that says what to do."""
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
                f"{hint}"
            ) from error


def _check_unchanged(wanted: Sequence[Migration], applied: Mapping[str, str]) -> None:
    for migration in wanted:
        if applied.get(migration.name, migration.sha256) != migration.sha256:
            raise RecordError(
                f"{migration.name} was changed after it had been applied to this database. Schema files are "
                "never edited: restore the file as it was and put the change into a new one"
            )


_EXISTS: LiteralString = """
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = 'orion_migrations'
"""
_CREATE_MIGRATIONS: LiteralString = """
CREATE TABLE IF NOT EXISTS orion_migrations (
    name text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_INSERT: LiteralString = "INSERT INTO orion_migrations (name, sha256) VALUES ($1, $2)"
# Tables without it were made by a version that knew no schema of its own, and are moved.
_MARK = "Schema files that were applied. orion-recall made this schema, or moved its tables here."
_COMMENT = f"COMMENT ON TABLE orion_migrations IS '{_MARK}'"
