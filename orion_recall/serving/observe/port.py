"""The health port: a small HTTP server in threads of its own, so that it answers while the worker hangs.

It serves GET and HEAD, one request a connection, and 32 connections at a time, each of which may be silent for five
seconds: no client can harm the worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.errors import ModelError, SettingsError
from orion_recall.serving.observe.metrics import ObservedService
from orion_recall.serving.observe.source_checks import answers, required_sources
from orion_recall.settings import RECALL_GROUP
from orion_recall.tasks import cancel
from orion_recall.values import SourceName

log = logging.getLogger("orion_recall.service")

_FRESH_S = 1.0
_CHECK_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The reason why each checked part is not ready; None where it is."""

    checks: Mapping[str, str | None]

    @property
    def ready(self) -> bool:
        return not any(self.checks.values())


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


_SILENCE_S = 5.0
_MOST_CONNECTIONS = 32
_STOP_S = 5.0

Route = Callable[[], tuple[HTTPStatus, bytes, str]]
"""Status, body and content type; called in a thread of its own."""


def json_answer(status: HTTPStatus, value: object) -> tuple[HTTPStatus, bytes, str]:
    """The answer of a route as JSON."""
    return status, json.dumps(value).encode() + b"\n", "application/json"


class HttpPort(ThreadingHTTPServer):
    """Serves the routes by path, from `start()` to `stop()`. Port 0 takes a free one: `url` says which.

    SettingsError when the address cannot be had.
    """

    daemon_threads, block_on_close = True, False

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening_socket(host, port)
        self.server_address, self.routes = self.socket.getsockname()[:2], routes
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="health", daemon=True)

    @property
    def url(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Stop listening; requests that are being answered end by themselves."""
        await asyncio.to_thread(self.shutdown)
        await asyncio.to_thread(self._thread.join, _STOP_S)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone or too slow is no error of ours."""
        log.debug("the health port: a request ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _SILENCE_S
    server: HttpPort  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._respond()

    def do_HEAD(self) -> None:
        self._respond()

    def _respond(self) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            missing = {"error": f"there is {', '.join(self.server.routes)}"}
            status, body, content_type = json_answer(HTTPStatus.NOT_FOUND, missing)
        else:
            status, body, content_type = route()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; SettingsError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"ORION_HEALTH_PORT: cannot listen on {host} port {port}: {error}") from error
