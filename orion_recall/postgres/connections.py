"""Connections to Postgres: the types of asyncpg that are used here, set-up, closing, and use behind a pooler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, ClassVar, Protocol

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.postgres.address import quote_identifier, read_address, shown
from orion_recall.postgres.errors import POSTGRES_ERRORS


class Row(Protocol):
    """One row, by column name or position."""

    def __getitem__(self, key: str | int) -> Any: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def keys(self) -> Iterator[str]: ...
    def values(self) -> Iterator[Any]: ...
    def items(self) -> Iterator[tuple[str, Any]]: ...


class Executor(Protocol):
    """Runs statements: a connection or a whole pool."""

    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, command: str, args: Sequence[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *args: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object, column: int = 0) -> Any: ...


class Attribute(Protocol):
    """One column of a prepared statement's result."""

    @property
    def name(self) -> str: ...


class Cursor(Protocol):
    """An open cursor of a prepared statement."""

    async def fetch(self, n: int) -> list[Row]: ...


class Prepared(Protocol):
    """A prepared statement."""

    def get_attributes(self) -> Sequence[Attribute]: ...
    def cursor(self, *args: object, prefetch: int | None = None) -> Awaitable[Cursor]: ...


class Connection(Executor, Protocol):
    """One connection."""

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
    """A connection to be awaited (and given back by `pool.release`) or entered."""

    def __await__(self) -> Generator[Any, None, Connection]: ...
    async def __aenter__(self) -> Connection: ...
    async def __aexit__(self, *exc: object) -> None: ...


class Pool(Executor, Protocol):
    """A pool of connections."""

    def acquire(self, *, timeout: float | None = None) -> Acquired: ...
    async def release(self, connection: Connection) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...
    def get_size(self) -> int: ...
    def get_idle_size(self) -> int: ...


CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0


def connect_options(
    dsn: str, name: str, statement_timeout_ms: int, cache_size: int | None, *, in_our_schema: bool = True
) -> tuple[str, dict[str, Any]]:
    """The DSN and the options for asyncpg's `connect` and `create_pool`."""
    address = read_address(dsn)
    cache_size = address.cache_size if cache_size is None else cache_size
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
        return await self._in_our_schema(lambda: _DRIVER.execute(self, query, *args, timeout=timeout))

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._in_our_schema(lambda: _DRIVER.executemany(self, command, args, timeout=timeout))

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_our_schema(lambda: _DRIVER.fetch(self, query, *args, **options))

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_our_schema(lambda: _DRIVER.fetchrow(self, query, *args, **options))

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        return await self._in_our_schema(lambda: _DRIVER.fetchval(self, query, *args, **options))

    async def _in_our_schema(self, run: Callable[[], Awaitable[Any]]) -> Any:
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


@cache
def pooled_connection(schema: str) -> type[PooledConnection]:
    """The class of connections whose tables are in this schema."""
    set_path = f"SET LOCAL search_path TO {quote_identifier(schema)}"
    return type("PooledConnection", (PooledConnection,), {"__slots__": (), "set_path": set_path})
