"""Postgres as the rest of orion-recall sees it: typed pools, migrations, translated errors, quoted names.

`Pool`, `Connection` and `Record` are the types to annotate with: asyncpg itself ships none.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import RecordError, SettingsError
from orion_recall.postgres_types import Connection as Connection
from orion_recall.postgres_types import Pool as Pool
from orion_recall.postgres_types import Record as Record
from orion_recall.text import storable, storable_json

CONNECT_TIMEOUT_S = 5.0
ACQUIRE_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0

_SCHEMA_FOLDERS = ("memory", "decisions")
# Any fixed number: it is the name of the lock under which migrations run.
_MIGRATION_LOCK = 7_402_116_889
# Reading which files are applied, and applying one: an index over a large table takes its time.
_LOOK_TIMEOUT_S, _MIGRATION_TIMEOUT_S = 30.0, 3600.0
_FILES_OF_TLS = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_IDENTIFIER = re.compile(r"[^\W\d][\w$]*", re.UNICODE)
# 53: out of connections, memory or disk; 08: connection; 57: shut down, starting, cancelled; 58: system.
_AWAY_CLASSES = ("08", "53", "57", "58")
_READ_ONLY = "25006"
_NO_RIGHT = "42501"
# Data that Postgres refuses: values (22), constraints (23), limits such as an index row's size (54).
_REFUSED_CLASSES = ("22", "23", "54")

POSTGRES_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


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
    the DSN) is for PgBouncer: no statement is named, no session reset, and slow statements are stopped by this
    side alone, because a pooler refuses `statement_timeout` at the start of a session.
    """
    dsn, options = _connect_options(dsn, name, statement_timeout_ms, statement_cache_size)
    if options["statement_cache_size"] == 0:
        # What asyncpg would send at every release falls on whichever session the pooler has free.
        options["reset"] = _leave_as_it_is
    with translate("opening Postgres"):
        opened = await asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            dsn, min_size=min_size, max_size=max_size, init=_set_codecs, **options
        )
    return cast("Pool", opened)


async def close_pool(pool: Pool) -> None:
    """Closes the pool; connections whose server says nothing are cut after `CLOSE_TIMEOUT_S`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await pool.close()


async def close_connection(connection: Connection, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
    """Closes the connection; it is cut when the server says nothing for `timeout_s`, or is away."""
    with contextlib.suppress(TimeoutError, *POSTGRES_ERRORS):
        async with asyncio.timeout(timeout_s):
            await connection.close()


async def open_connection(dsn: str, *, name: str, statement_timeout_ms: int) -> Connection:
    """One connection set up as a pool's are, for those that hold it: giving one back to a pool costs a RESET."""
    dsn, options = _connect_options(dsn, name, statement_timeout_ms, None)
    with translate("opening Postgres"):
        opened: object = await asyncpg.connect(dsn, **options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        await _set_codecs(opened)
    return cast("Connection", opened)


@asynccontextmanager
async def borrow(pool: Pool, doing: str = "using Postgres") -> AsyncGenerator[Connection]:
    """A connection of the pool, waited for `ACQUIRE_TIMEOUT_S` at most; errors come out as RecordError."""
    with translate(doing):
        async with pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection:
            yield connection


def _connect_options(
    dsn: str, name: str, statement_timeout_ms: int, cache_size: int | None
) -> tuple[str, dict[str, Any]]:
    if not dsn.startswith(("postgresql://", "postgres://")):
        # A pool without connections would find out only when it is used.
        raise SettingsError("ORION_POSTGRES_DSN: write postgresql://user:password@host:5432/database")
    _check_files(dsn)
    if "statement_cache_size=" in dsn:
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query))
        given = query.pop("statement_cache_size", "")
        if not given.isdecimal():
            raise SettingsError("ORION_POSTGRES_DSN: statement_cache_size must be a number, such as 0")
        cache_size = int(given) if cache_size is None else cache_size
        dsn = urlunsplit(parts._replace(query=urlencode(query)))
    server_settings = {"application_name": f"orion-recall:{name}", "timezone": "UTC"}
    if cache_size != 0:
        server_settings["statement_timeout"] = str(statement_timeout_ms)
    return dsn, {
        "timeout": CONNECT_TIMEOUT_S,
        # A little later than the server's own limit, so that the server's clearer error comes first.
        "command_timeout": statement_timeout_ms / 1000 + 1,
        "statement_cache_size": 100 if cache_size is None else cache_size,
        "server_settings": server_settings,
    }


def _check_files(dsn: str) -> None:
    """SettingsError for a certificate that is not there: asyncpg would find out at every connection, as if away."""
    for name, value in parse_qsl(urlsplit(dsn).query):
        if name in _FILES_OF_TLS and not Path(value).is_file():
            raise SettingsError(f"ORION_POSTGRES_DSN: {name} is not a file that can be read: {value}")


async def _set_codecs(connection: Any) -> None:
    for type_name in ("json", "jsonb"):
        await connection.set_type_codec(
            type_name, schema="pg_catalog", encoder=to_json, decoder=json.loads, format="text"
        )


async def _leave_as_it_is(connection: object) -> None:
    """The reset of a session that is a pooler's."""


def to_json(value: object) -> str:
    """The value as JSON that Postgres can hold: no NUL, no lone surrogates; NaN and infinity are refused."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if "\\u0000" in text:  # seldom, and it may be a harmless escaped backslash: look properly
        text = json.dumps(storable_json(value), ensure_ascii=False, separators=(",", ":"))
    return storable(text)


@contextmanager
def translate(doing: str = "using Postgres") -> Generator[None]:
    """Errors of asyncpg, sockets and time-outs come out as RecordError, without values or secrets."""
    try:
        yield
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise SettingsError(f"ORION_POSTGRES_DSN cannot be used: {_first_line(error)}") from None
    except POSTGRES_ERRORS as error:
        raise RecordError(f"{doing}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Why Postgres failed, in one short line that holds no values of rows and no secrets."""
    state = sqlstate(error)
    if isinstance(error, asyncpg.exceptions.DataError | asyncpg.InterfaceError) and isinstance(error, ValueError):
        return f"Postgres refused a value ({type(error).__name__})"
    if state is not None and state[:2] in ("22", "23", "P0"):
        # The text of a data error may quote the value, and so may a trigger's: the kind of error has to do.
        return f"Postgres refused a value ({type(error).__name__}, {state})"
    if state is not None:
        return f"Postgres: {_first_line(error)} ({state})"
    if isinstance(error, TimeoutError):
        return "Postgres did not answer in time"
    if isinstance(error, OSError):
        return f"Postgres cannot be reached: {error.strerror or type(error).__name__}"
    return f"Postgres: {_first_line(error)}"


def sqlstate(error: BaseException) -> str | None:
    """The five-character SQLSTATE, when the server gave one."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_refusal(error: BaseException) -> bool:
    """Whether the data is to blame: the server says so, or the driver cannot encode it."""
    state = sqlstate(error)
    return isinstance(error, ValueError) if state is None else state[:2] in _REFUSED_CLASSES


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server is away, full, starting or read-only, so that the same statement may do later.

    Looks through a RecordError at its cause.
    """
    if isinstance(error, RecordError):
        return error.__cause__ is not None and is_connection_lost(error.__cause__)
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _AWAY_CLASSES or state == _READ_ONLY
    if isinstance(error, ValueError):  # asyncpg's own: a bad address, or a value that it cannot encode
        return False
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def quote_identifier(name: str) -> str:
    """The name in double quotes, as it is written: letters, digits, `_` and `$`, at most 63 bytes."""
    if not _IDENTIFIER.fullmatch(name) or len(name.encode("utf-8", "replace")) > 63:
        raise SettingsError(
            f"{name[:80]!r} cannot be a name in Postgres: use letters, digits, _ and $, begin with a letter "
            "or _, and stay within 63 bytes"
        )
    return f'"{name}"'


def quote_qualified(name: str) -> str:
    """A table or view, as `table` or `schema.table`, with each part quoted."""
    parts = name.split(".")
    if len(parts) > 2:
        raise SettingsError(f"{name[:80]!r} has too many parts: write table or schema.table")
    return ".".join(quote_identifier(part) for part in parts)


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
    """Applies the schema files that are pending and gives their names, in order.

    One transaction a file. Several processes may start together: each file is applied under a lock, after
    a second look. When nothing is pending nothing but one SELECT is run, so the role needs no rights to
    create. RecordError: Postgres is away, the role may not create, or an applied file has been changed.
    """
    wanted = shipped_migrations() if migrations is None else migrations
    dsn, options = _connect_options(dsn, "migrate", 0, None)
    options["command_timeout"] = _MIGRATION_TIMEOUT_S
    with translate("applying the schema"):
        opened: object = await asyncpg.connect(dsn, **options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        connection = cast("Connection", opened)
        try:
            async with asyncio.timeout(_LOOK_TIMEOUT_S):
                applied = await _applied(connection)
            _check_unchanged(wanted, applied)
            pending = [migration for migration in wanted if migration.name not in applied]
            return [migration.name for migration in pending if await _apply(connection, migration)]
        finally:
            await close_connection(connection)


async def _applied(connection: Connection) -> dict[str, str]:
    # Not by to_regclass: after a wait for the lock it may still answer from the session's catalogue cache.
    if not await connection.fetchval(
        "SELECT count(*) FROM pg_class WHERE relname = 'orion_migrations' AND pg_table_is_visible(oid)"
    ):
        return {}
    rows = await connection.fetch("SELECT name, sha256 FROM orion_migrations")
    return {row["name"]: row["sha256"] for row in rows}


def _check_unchanged(wanted: Sequence[Migration], applied: Mapping[str, str]) -> None:
    for migration in wanted:
        if applied.get(migration.name, migration.sha256) != migration.sha256:
            raise RecordError(
                f"{migration.name} was changed after it had been applied to this database. Schema files are "
                "never edited: restore the file as it was and put the change into a new one"
            )


async def _apply(connection: Connection, migration: Migration) -> bool:
    """Whether this process applied it; False when another one was quicker."""
    try:
        async with connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            applied = await _applied(connection)
            if migration.name in applied:
                _check_unchanged([migration], applied)
                return False
            if not applied:
                await connection.execute(_CREATE_MIGRATIONS)
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO orion_migrations (name, sha256) VALUES ($1, $2)",
                migration.name,
                migration.sha256,
            )
    except asyncpg.PostgresError as error:
        if sqlstate(error) != _NO_RIGHT:
            raise
        role, schema = "?", "?"
        row = await connection.fetchrow("SELECT current_user AS role, current_schema() AS schema")
        if row is not None:
            role, schema = row["role"], row["schema"]
        raise RecordError(
            f"the role {role!r} may not apply {migration.name} ({_first_line(error)}): apply the schema "
            f"once as its owner, or GRANT CREATE ON SCHEMA {schema} TO {role}"
        ) from error
    return True


_CREATE_MIGRATIONS: LiteralString = """
CREATE TABLE IF NOT EXISTS orion_migrations (
    name text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
