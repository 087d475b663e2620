"""The health port: a small HTTP server in its own thread and event loop, so that it answers while the worker hangs.

It serves GET and HEAD, one request a connection, and allows five seconds, 8 KiB of request and 32 connections at a
time, so that no client can harm the worker.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.errors import ModelError, SettingsError
from orion_recall.serving.observe.metrics import ObservedService
from orion_recall.serving.observe.source_checks import answers, required_sources
from orion_recall.settings import RECALL_GROUP
from orion_recall.tasks import cancel
from orion_recall.values import SourceName

_FRESH_S = 1.0
_CHECK_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The reason why each checked part is not ready; None where it is."""

    checks: Mapping[str, str | None]

    @property
    def ready(self) -> bool:
        """Whether all parts are ready."""
        return not any(self.checks.values())

    def as_json(self) -> dict[str, object]:
        """For the wire."""
        checks = {
            name: {"ok": True} if why is None else {"ok": False, "reason": why} for name, why in self.checks.items()
        }
        return {"ready": self.ready, "checks": checks}


class Readiness:
    """Checks a service, once it is attached."""

    def __init__(self) -> None:
        self._attached: tuple[ObservedService, Redis] | None = None
        self._checking: asyncio.Task[ReadinessReport] | None = None
        self._checked_at = 0.0

    def attach(self, running: ObservedService, redis: Redis) -> None:
        """Check this service from now on. What was found before is no report of it."""
        self._attached = (running, redis)
        if self._checking is not None and self._checking.done():
            self._checking = None

    async def check(self) -> ReadinessReport:
        """The report of now, or of less than a second ago."""
        if self._attached is None:
            return ReadinessReport(checks={"model": "the model and the stores are being opened"})
        over = self._checking is None or self._checking.done()
        if self._checking is None or (over and time.monotonic() - self._checked_at > _FRESH_S):
            self._checking = asyncio.create_task(self._check(*self._attached), name="readiness")
        return await asyncio.shield(self._checking)

    async def close(self) -> None:
        """End a check that is running."""
        if self._checking is not None:
            await cancel(self._checking)

    async def _check(self, running: ObservedService, redis: Redis) -> ReadinessReport:
        names = required_sources(running)
        bus, *sources = await asyncio.gather(_bus(running, redis), *(_source(name, running) for name in names))
        self._checked_at = time.monotonic()
        checks = {"model": _model(running), "bus": bus, **dict(zip(names, sources, strict=True))}
        return ReadinessReport(checks=checks)


def _model(running: ObservedService) -> str | None:
    try:
        return None if running.opened.embedder.dimension > 0 else "the model has no dimension"
    except ModelError as error:
        return str(error)


async def _bus(running: ObservedService, redis: Redis) -> str | None:
    stream = running.settings.query_stream
    try:
        async with asyncio.timeout(_CHECK_S):
            groups = await redis.xinfo_groups(stream)
    except TimeoutError:
        return f"the bus did not answer within {_CHECK_S:g} s"
    except RedisError as error:
        if group_is_gone(error) or "no such key" in str(error).lower():
            return f"the stream {stream} is not there"
        return (
            f"the bus: {error}" if not isinstance(error, BUS_AWAY) else f"the bus is away ({type(error).__name__})"
        )
    except OSError as error:
        return f"the bus is away ({type(error).__name__})"
    if not any(group["name"] in (RECALL_GROUP, RECALL_GROUP.encode()) for group in groups):
        return f"the group {RECALL_GROUP} of {stream} is not there"
    return None if running.is_taking else "no queries are taken: starting or stopping"


async def _source(name: SourceName, running: ObservedService) -> str | None:
    source = running.opened.sources.by_name.get(name)
    if source is None:
        return "not configured"
    # A table that belongs to one tenant refuses every other one.
    tenant = running.settings.timeline_tenant or running.settings.default_tenant
    graph = running.opened.graph if name == "rdf" else None
    return await answers(source, tenant, graph=graph, within_s=_CHECK_S)


_REQUEST_S = 5.0
_REQUEST_BYTES = 8192
_MOST_CONNECTIONS = 32
_STOP_S = 5.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of_json(cls, status: HTTPStatus, value: object, **headers: str) -> Answer:
        return cls(status=status, body=json.dumps(value).encode() + b"\n", headers=headers)


Route = Callable[[], Awaitable[Answer]]


class HttpPort:
    """Serves the routes by path, from `start()` to `stop()`. Port 0 takes a free one: `address` says which."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self.address: tuple[str, int] = (host, port)
        self._routes = routes
        self._open: dict[asyncio.Task[None], socket.socket] = {}
        self._started: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="health", daemon=True)

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Listens when it returns; SettingsError when the address cannot be had."""
        self._thread.start()
        await asyncio.wrap_future(self._started)

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, _STOP_S)

    async def _serve(self) -> None:
        try:
            listener = listening_socket(*self.address)
        except SettingsError as error:
            self._started.set_exception(error)
            return
        loop = self._loop = asyncio.get_running_loop()
        with listener:
            listener.setblocking(False)
            self.address = listener.getsockname()[:2]
            self._started.set_result(None)
            loop.add_reader(listener, self._accept, listener, loop)
            await self._stop.wait()
            loop.remove_reader(listener)
        clients = dict(self._open)
        await cancel(*clients)
        for client in clients.values():
            client.close()

    def _accept(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """Accept one client. asyncio's own servers leak a client that connects while they are closed."""
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no more files may be opened, most likely: later
            loop.remove_reader(listener)
            loop.call_later(_PAUSE_S, self._accept_again, listener, loop)
            return
        if len(self._open) >= _MOST_CONNECTIONS:
            client.close()
            return
        client.setblocking(False)
        task = loop.create_task(self._serve_client(client))
        self._open[task] = client
        task.add_done_callback(self._open.pop)

    def _accept_again(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        if not self._stop.is_set():
            loop.add_reader(listener, self._accept, listener, loop)

    async def _serve_client(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=_REQUEST_BYTES)
        # Nothing stays in our buffers: a client that does not read its response is dropped like any slow one.
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(_REQUEST_S):
                await self._exchange(reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # it is gone, or was too slow
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body, answer = await self._answer(reader)
        head = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
            "Cache-Control: no-store",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
        ]
        writer.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + (answer.body if with_body else b""))
        await writer.drain()
        writer.write_eof()
        # A client that is still sending would see a reset instead of the answer.
        while await reader.read(_REQUEST_BYTES):
            pass

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bool, Answer]:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return True, _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {_REQUEST_BYTES} bytes")
        match head.partition(b"\r\n")[0].decode("latin-1").split(" "):
            case [("GET" | "HEAD") as method, target, ("HTTP/1.0" | "HTTP/1.1")]:
                route = self._routes.get(target.partition("?")[0])
                if route is None:
                    return True, _error(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._routes)}")
                return method == "GET", await route()
            case [_, _, ("HTTP/1.0" | "HTTP/1.1")]:
                return True, _error(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only", Allow="GET, HEAD")
            case _:
                return True, _error(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; SettingsError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"ORION_HEALTH_PORT: cannot listen on {host} port {port}: {error}") from error


def _error(status: HTTPStatus, why: str, **headers: str) -> Answer:
    return Answer.of_json(status, {"error": why}, **headers)
