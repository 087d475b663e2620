"""Runs the console: its connections, its address, and the rules of who may reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Generator
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.console.access import Sessions, TokenFile
from orion_recall.console.app import console_app
from orion_recall.console.guard import answered_hosts
from orion_recall.console.rendering import Pages
from orion_recall.console.replay_process import Replaying
from orion_recall.console.visit import Console, ReadStatus
from orion_recall.errors import SettingsError
from orion_recall.postgres.pool import close_pool, open_pool
from orion_recall.settings import Settings

_STOP_S = 2
_BACKLOG = 128
# Far below the descriptors that a process may have: with `up`, the engines need theirs.
MOST_CONNECTIONS = 128
HEAD_S = 10.0


class _Connection(H11Protocol):
    """A connection: it ends where no whole head of a request comes in time, or where there are too many."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._expect_nothing()
        elif self._late is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A server that leaves signals to the program around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def running_console(settings: Settings, read_status: ReadStatus) -> AsyncGenerator[str]:
    """The console while it takes requests; gives its address.

    Needs a bus and Postgres. SettingsError when it may not listen there, or the address is in use.
    """
    url, dsn = settings.bus_url, settings.dsn
    if url is None or dsn is None:
        raise SettingsError("the console needs a bus and Postgres: ORION_REDIS_URL, ORION_POSTGRES_DSN")
    tokens = TokenFile(settings.console_tokens) if settings.console_tokens is not None else None
    hosts = answered_hosts(settings, has_tokens=tokens is not None)
    async with contextlib.AsyncExitStack() as stack:
        listening = stack.enter_context(_listening(settings))
        port = int(listening.getsockname()[1])
        redis = await stack.enter_async_context(connect(url))
        client = RecallClient.connect(
            url, prefix=settings.prefix, service="orion-recall-console", max_query_bytes=settings.max_query_bytes
        )
        pool = await open_pool(dsn, name="console", min_size=0, max_size=4)
        stack.push_async_callback(close_pool, pool)
        replaying = Replaying(settings)
        stack.push_async_callback(replaying.close)
        console = Console(
            settings=settings,
            pool=pool,
            client=await stack.enter_async_context(client),
            redis=redis,
            read_status=read_status,
            pages=Pages(),
            sessions=Sessions(),
            tokens=tokens,
            cookie=f"orion_console_{port}",
            stopping=asyncio.Event(),
            replaying=replaying,
        )
        await stack.enter_async_context(_serving(console_app(console, hosts), listening))
        stack.callback(console.stopping.set)
        host = settings.console_host
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def check_console(settings: Settings) -> None:
    """SettingsError where the console may not or cannot listen as the settings say; nothing stays open."""
    tokens = TokenFile(settings.console_tokens) if settings.console_tokens is not None else None
    answered_hosts(settings, has_tokens=tokens is not None)
    with _listening(settings):
        pass


@contextlib.contextmanager
def _listening(settings: Settings) -> Generator[socket.socket]:
    host, port = settings.console_host, settings.console_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # create_server adds the address in Python's own words.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise SettingsError(
            f"the console cannot listen on {host}, port {port}: {why}. ORION_CONSOLE_PORT sets "
            "another port (0: a free one), ORION_CONSOLE_HOST another address; `orion-recall console` also takes "
            "--port and --host"
        ) from error
    with listening:
        yield listening


@contextlib.asynccontextmanager
async def _serving(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[None]:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        http=_Connection,
        server_header=False,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
