"""Connections to Postgres: pools, held connections, translated errors, and the types of asyncpg, which ships none.

Our tables, views and sequences are in a schema of our own (ORION_POSTGRES_SCHEMA), and it alone is searched by our
connections: what others have put into the database is never taken for ours, whatever it is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cache, partial, partialmethod
from typing import Any, ClassVar, Protocol, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import QueryNotTaken, RecordError, SettingsError, SourceError, TransientSourceError
from orion_recall.postgres.address import quote_identifier, read_address, shown
from orion_recall.tasks import Slots
from orion_recall.text.normal import storable, storable_json

# 53: out of connections, memory or disk; 08: connection; 57: shut down, starting, cancelled; 58: system.
_AWAY_CLASSES = ("08", "53", "57", "58")
_READ_ONLY = "25006"
# Data that Postgres refuses: values (22), constraints (23), limits such as an index row's size (54).
_REFUSED_CLASSES = ("22", "23", "54")

POSTGRES_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


@contextmanager
def translate(doing: str = "using Postgres") -> Generator[None]:
    """Errors of asyncpg, sockets and time-outs come out as RecordError, without values or secrets."""
    try:
        yield
    except asyncpg.exceptions.ClientConfigurationError as error:
        raise SettingsError(f"ORION_POSTGRES_DSN cannot be used: {first_line(error)}") from None
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
    if state == _READ_ONLY:
        return f"Postgres is read-only: it is a replica, or its disk is short ({state})"
    if state is not None:
        return f"Postgres: {first_line(error)} ({state})"
    if isinstance(error, TimeoutError):
        return "Postgres did not answer in time"
    if isinstance(error, OSError):
        return f"Postgres cannot be reached: {error.strerror or type(error).__name__}"
    return f"Postgres: {first_line(error)}"


def sqlstate(error: BaseException) -> str | None:
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_refusal(error: BaseException) -> bool:
    """Whether the data is to blame: the server says so, or the driver cannot encode it."""
    state = sqlstate(error)
    return isinstance(error, ValueError) if state is None else state[:2] in _REFUSED_CLASSES


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server is away, full, starting or read-only, so that the same statement may do later."""
    if isinstance(error, RecordError):
        return error.__cause__ is not None and is_connection_lost(error.__cause__)
    state = sqlstate(error)
    if state is not None:
        return state[:2] in _AWAY_CLASSES or state == _READ_ONLY
    if isinstance(error, ValueError):  # asyncpg's own: a bad address, or a value that it cannot encode
        return False
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


class Row(Protocol):
    def __getitem__(self, key: str | int) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def keys(self) -> Iterator[str]: ...
    def values(self) -> Iterator[Any]: ...
    def items(self) -> Iterator[tuple[str, Any]]: ...


class Executor(Protocol):
    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, command: str, args: Sequence[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *args: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object, column: int = 0) -> Any: ...


class Prepared(Protocol):
    def get_attributes(self) -> Sequence[Any]: ...
    def cursor(self, *args: object, prefetch: int | None = None) -> Awaitable[Any]: ...


class Connection(Executor, Protocol):
    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False, deferrable: bool = False
    ) -> AbstractAsyncContextManager[object]: ...
    async def prepare(self, query: str) -> Prepared: ...
    async def copy_from_query(self, query: str, *, output: Callable[[bytes], Awaitable[None]]) -> str: ...
    async def copy_to_table(
        self, table_name: str, *, source: AsyncIterable[bytes], columns: Sequence[str]
    ) -> str: ...
    def is_closed(self) -> bool: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Acquired(Protocol):
    def __await__(self) -> Generator[Any, None, Connection]: ...
    async def __aenter__(self) -> Connection: ...
    async def __aexit__(self, *exc: object) -> None: ...


class Pool(Executor, Protocol):
    def acquire(self, *, timeout: float | None = None) -> Acquired: ...
    async def release(self, connection: Connection) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0


def connect_options(
    dsn: str, name: str, statement_timeout_ms: int, *, in_our_schema: bool = True
) -> tuple[str, dict[str, Any]]:
    address = read_address(dsn)
    cache_size = address.cache_size
    server_settings = {"application_name": f"orion-recall:{name}", "timezone": "UTC"}
    options: dict[str, Any] = {
        "timeout": CONNECT_TIMEOUT_S,
        # A little later than the server's own limit, so that the server's clearer error comes first.
        "command_timeout": statement_timeout_ms / 1000 + 1,
        "statement_cache_size": 100 if cache_size is None else cache_size,
        "server_settings": server_settings,
    }
    if cache_size != 0:
        server_settings["statement_timeout"] = str(statement_timeout_ms)
    if in_our_schema and cache_size != 0:
        server_settings["search_path"] = quote_identifier(address.schema)
    elif in_our_schema:
        options["connection_class"] = pooled_connection(address.schema)
    return address.dsn, options


async def connect(dsn: str, **options: Any) -> Any:
    """A connection of the driver's; an error of the network names the address, which the driver leaves out."""
    try:
        return await asyncpg.connect(dsn, **options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except TimeoutError:
        raise
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise ConnectionError(error.errno, f"{why[:200]} (at {shown(dsn)})") from error


async def close_connection(connection: Connection, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
    """Closes the connection; it is cut when the server says nothing for `timeout_s`, or is away."""
    with contextlib.suppress(TimeoutError, *POSTGRES_ERRORS):
        async with asyncio.timeout(timeout_s):
            await connection.close()


_DRIVER: Any = asyncpg.Connection


class PooledConnection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
    """Sets our schema in every transaction. A lone statement becomes a transaction.

    A pooler refuses `search_path` at the start of a session, and hands out another session for every transaction.
    A table of others that has the name of one of ours is so never taken for it, however the pooler is set up.
    """

    __slots__ = ()
    set_path: ClassVar[str]

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109
        if not self.is_in_transaction() and query.lstrip().startswith("BEGIN"):
            return await _DRIVER.execute(self, f"{query.rstrip().rstrip(';')}; {self.set_path}", timeout=timeout)
        return await self._in_our_schema("execute", query, *args, timeout=timeout)

    async def _in_our_schema(self, method: str, *args: Any, **options: Any) -> Any:
        run = partial(getattr(_DRIVER, method), self, *args, **options)
        if self.is_in_transaction():
            return await run()
        await self.execute("BEGIN")
        try:
            result = await run()
        except asyncpg.PostgresError:
            with contextlib.suppress(*POSTGRES_ERRORS):  # the first one says why
                await _DRIVER.execute(self, "ROLLBACK")
            raise
        except BaseException:
            # Cancelled, or the server says nothing: nobody waits for it once more.
            self.terminate()
            raise
        await _DRIVER.execute(self, "COMMIT")
        return result

    executemany = cast("Any", partialmethod(_in_our_schema, "executemany"))
    fetch = cast("Any", partialmethod(_in_our_schema, "fetch"))
    fetchrow = cast("Any", partialmethod(_in_our_schema, "fetchrow"))
    fetchval = cast("Any", partialmethod(_in_our_schema, "fetchval"))


@cache
def pooled_connection(schema: str) -> type[PooledConnection]:
    set_path = f"SET LOCAL search_path TO {quote_identifier(schema)}"
    return type("PooledConnection", (PooledConnection,), {"__slots__": (), "set_path": set_path})


ACQUIRE_TIMEOUT_S = 5.0


async def open_pool(
    dsn: str, *, name: str, min_size: int = 0, max_size: int = 4, statement_timeout_ms: int = 30_000
) -> Pool:
    """A pool whose connections speak JSON as Python values, keep UTC and give up on slow statements.

    With `min_size` 0 it opens while Postgres is away. `statement_cache_size` 0 in the DSN is for PgBouncer: no
    statement is named, and slow ones are stopped by this side alone. A connection that is given back is not reset:
    what is set in a session must be set for one transaction.
    """
    dsn, options = connect_options(dsn, name, statement_timeout_ms)

    async def keep(connection: object) -> None: ...

    # We change nothing of a session: what asyncpg would send at every release is a round trip for nothing, and
    # behind a pooler it falls on whichever session is free. A transaction that is open is rolled back all the same.
    options["reset"] = keep
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
    """One connection set up as a pool's are, for those that hold it."""
    dsn, options = connect_options(dsn, name, statement_timeout_ms, in_our_schema=not for_external_tables)
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


async def fetched(pool: Pool, doing: str, query: str, *values: object) -> list[Row]:
    """The rows of one statement over a connection of the pool; RecordError."""
    async with borrow(pool, doing) as connection:
        return await connection.fetch(query, *values)


async def _set_codecs(connection: Any) -> None:
    for type_name in ("json", "jsonb"):
        await connection.set_type_codec(
            type_name, schema="pg_catalog", encoder=to_json, decoder=json.loads, format="text"
        )


def to_json(value: object) -> str:
    """The value as JSON that Postgres can hold: no NUL, no lone surrogates; NaN and infinity are refused."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if "\\u0000" in text:  # seldom, and it may be a harmless escaped backslash: look properly
        text = json.dumps(storable_json(value), ensure_ascii=False, separators=(",", ":"))
    return storable(text)


class HeldConnections:
    """At most `most` connections to one address, opened when they are needed."""

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
