"""Addresses of bus and Postgres: from the environment, else from `orion-recall up` running on the data folder.

A command that needs the record alone starts the Postgres of a folder that nobody serves, for the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import typer
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import connect, without_secrets
from orion_recall.cli.output import note
from orion_recall.client import RecallClient
from orion_recall.decisions.log import ANALYST_ROLE
from orion_recall.engines.embedded import EmbeddedEngines, read_addresses
from orion_recall.engines.lock import held_by
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.valkey import ValkeyServer
from orion_recall.errors import BusUnavailable, SettingsError
from orion_recall.postgres.pool import Pool, close_pool, open_pool
from orion_recall.settings import Settings

C = TypeVar("C")
T = TypeVar("T")

# The first start on a folder makes a Postgres cluster; on a busy machine that takes a while.
_LONGEST_START_S = 60.0
_CALLED_JUST_NOW_S = 3.0
_LOOK_EVERY_S = 0.1

_DATA_HELP = "Data folder of a running `up` (default: ORION_DATA_DIR or .orion)."
DataFolder = Annotated[Path | None, typer.Option("--data", metavar="DIR", help=_DATA_HELP)]
Actor = Annotated[str | None, typer.Option(help="Name of who does this, for the history.")]
Tenant = Annotated[str | None, typer.Option(help="The tenant (default: ORION_DEFAULT_TENANT).")]
Timeout = Annotated[float, typer.Option(min=0.01, help="Seconds to wait for the receipt.")]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        help="Seconds it may take until the next recall goes by it; 0: do not wait (default: the worker's, 2).",
    ),
]


def find(data: Path | None) -> Settings:
    """The settings with the addresses that are known; either may be absent.

    A running `up` fills in what the environment leaves open. Its Postgres is not taken together with another bus.
    """
    settings = Settings.read() if data is None else Settings.read(data_dir=data)
    if settings.redis_url is not None and settings.postgres_dsn is not None:
        return settings
    running = read_addresses(settings.data_dir)
    if running is None:
        return settings
    found = {"redis_url": None if settings.redis_url is not None else running.redis_url}
    if settings.postgres_dsn is None and (settings.redis_url is None or running.redis_url is None):
        found["postgres_dsn"] = running.postgres_dsn
    return settings.changed(**{name: SecretStr(url) for name, url in found.items() if url is not None})


def find_started(data: Path | None) -> Settings:
    """`find`, after waiting for an `up` that is starting on the data folder.

    One that was called just before this command takes a moment until it holds the folder: without any there is an
    answer after three seconds.
    """
    settings = find(data)
    began, told = time.monotonic(), False
    while settings.bus_url is None:
        starting = held_by(settings.data_dir)
        if time.monotonic() - began > (_LONGEST_START_S if starting else _CALLED_JUST_NOW_S):
            break
        if starting and not told:
            told = True
            note(f"waiting for `orion-recall up` (process {starting}), which is starting")
        time.sleep(_LOOK_EVERY_S)
        settings = find(data)
    return settings


def bus_of(settings: Settings) -> str:
    """The bus's address, secrets included; SettingsError when there is none."""
    if settings.bus_url is not None:
        return settings.bus_url
    if starting := held_by(settings.data_dir):
        raise SettingsError(
            f"no bus yet: process {starting} is starting its engines on {settings.data_dir}; try again in a few "
            "seconds, or set ORION_REDIS_URL"
        )
    raise SettingsError(
        f"no bus: start `orion-recall up` (none runs on {settings.data_dir}; one that was just started takes a few "
        "seconds), or set ORION_REDIS_URL"
    )


def dsn_of(settings: Settings) -> str:
    """Postgres's address, secrets included; SettingsError when there is none."""
    if settings.dsn is None:
        raise SettingsError(
            f"no Postgres: start `orion-recall up` (none runs on {settings.data_dir}), or set ORION_POSTGRES_DSN"
        )
    return settings.dsn


def open_client(
    settings: Settings, *, service: str = "orion-recall-cli"
) -> AbstractAsyncContextManager[RecallClient]:
    """The client of the bus that the settings name."""
    return RecallClient.connect(
        bus_of(settings), prefix=settings.prefix, service=service, max_message_bytes=settings.max_message_bytes,
        max_query_bytes=settings.max_query_bytes,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def open_bus(settings: Settings) -> AsyncGenerator[Redis]:
    """A connected client. Inside the block what Redis says no to comes out as BusUnavailable."""
    url = bus_of(settings)
    async with connect(url) as redis:
        try:
            await redis.ping()  # pyright: ignore[reportUnknownMemberType]
            yield redis
        except RedisError as error:
            raise BusUnavailable(f"the bus at {without_secrets(url)}: {error}") from error


def analyst_of(settings: Settings) -> Settings:
    """The settings for running SQL of others: a login that may read decisions and no more, where there is one.

    The embedded Postgres has one. Elsewhere it is ORION_ANALYST_DSN; without it the record's own login takes the
    analysts' role for the query.
    """
    if settings.analyst_dsn is not None:
        return settings.changed(postgres_dsn=settings.analyst_dsn)
    if (own := embedded_dsn(settings)) is None:
        return settings
    return settings.changed(postgres_dsn=SecretStr(urlunsplit(urlsplit(own)._replace(netloc=f"{ANALYST_ROLE}@"))))


def embedded_dsn(settings: Settings) -> str | None:
    """The address of Postgres where that is the one of an `up` on the data folder.

    It holds no secret, and its user is needed: the server knows none of the system's.
    """
    running = read_addresses(settings.data_dir)
    own = settings.postgres_dsn.get_secret_value() if settings.postgres_dsn else None
    return own if running is not None and running.postgres_dsn == own else None


@contextlib.asynccontextmanager
async def open_postgres(settings: Settings, *, name: str = "cli") -> AsyncGenerator[Pool]:
    """A small pool. It opens while Postgres is away: what is asked of it then is a RecordError."""
    pool = await open_pool(dsn_of(settings), name=name, min_size=0, max_size=2)
    try:
        yield pool
    finally:
        await close_pool(pool)


def within(opening: AbstractAsyncContextManager[C], work: Callable[[C], Awaitable[T]]) -> T:
    """What the work gives, of what is open meanwhile."""

    async def run() -> T:
        async with opening as opened:
            return await work(opened)

    return asyncio.run(run())


def with_pool(settings: Settings, tenant: str | None, work: Callable[[Pool, str], Awaitable[T]]) -> T:
    """What the work gives, of Postgres and the tenant: the given one, else ORION_DEFAULT_TENANT."""
    return within(open_postgres(settings), lambda pool: work(pool, tenant or settings.default_tenant))


@contextlib.asynccontextmanager
async def record_of(
    settings: Settings, *, new: bool = False, bus: bool = False, name: str = "cli"
) -> AsyncGenerator[tuple[Settings, Pool]]:
    """The settings with a record, and a pool of it: that of a folder which `up` has filled and left is started.

    With `new` also that of a folder which is still empty; with `bus` also the folder's own bus.
    """
    folder = settings.data_dir / PostgresServer.name
    async with contextlib.AsyncExitStack() as stack:
        if settings.dsn is None and (new or folder.is_symlink() or folder.is_dir()):
            bus = bus and settings.redis_url is None and (settings.data_dir / ValkeyServer.name).is_dir()
            schema, least = settings.postgres_schema, settings.min_free_bytes
            started = EmbeddedEngines.start(
                settings.data_dir, valkey=bus, postgres_schema=schema, min_free_bytes=least
            )
            engines = await stack.enter_async_context(started)
            found = {"postgres_dsn": engines.postgres_dsn} | ({"redis_url": engines.redis_url} if bus else {})
            settings = settings.changed(**{key: SecretStr(value) for key, value in found.items()})
        yield settings, await stack.enter_async_context(open_postgres(settings, name=name))


def dsn_without_secrets(dsn: str) -> str:
    """A DSN that may be printed: without user, password and what else could be one."""
    parts = urlsplit(dsn)
    kept = [(key, value) for key, value in parse_qsl(parts.query) if key in ("host", "port", "dbname", "sslmode")]
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + (f"?{urlencode(kept, safe='/')}" if kept else "")
