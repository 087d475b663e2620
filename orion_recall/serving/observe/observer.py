"""The observer of a service: its metrics and traces, and the health port that serves them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from redis.asyncio import Redis

from orion_recall.bus.commit import Committed
from orion_recall.errors import SettingsError
from orion_recall.serving.observe.health import Readiness
from orion_recall.serving.observe.metrics import (
    Instruments,
    ObservedService,
    add_gauges,
    describe_recall,
    otlp_exporters,
)
from orion_recall.serving.worker import QueryRequest
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, sleep
from orion_recall.telemetry import INSTRUMENTATION, RESOURCE

log = logging.getLogger("orion_recall.service")

_EVERY_S = 0.25
# An event loop that has not run for so long hangs: a recall holds it for a millisecond or two.
_HANGS_AFTER_S = 5.0
_LOOK_S = 3.0
_FLUSH_S = 5.0


class Observer:
    """Observes one service. `observing()` makes it; `attach` gives it the service once that exists."""

    def __init__(
        self, settings: Settings, *, readers: tuple[MetricReader, ...] = (), spans: SpanProcessor | None = None
    ) -> None:
        self.url: str | None = None
        self.readiness = Readiness()
        self._with_content = settings.content_capture
        self._meters = MeterProvider(
            readers, RESOURCE, exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False
        )
        self._meter = self._meters.get_meter(INSTRUMENTATION)
        self._instruments = Instruments(self._meter) if readers else None
        self._traces = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        self.tracer: Tracer | None = None
        if spans is not None:
            self._traces.add_span_processor(spans)
            self.tracer = self._traces.get_tracer(INSTRUMENTATION)

    def attach(self, running: ObservedService, redis: Redis) -> None:
        if self._instruments is not None:
            add_gauges(self._meter, running)
        self.readiness.attach(running, redis)

    def served(self, request: QueryRequest, result: Committed) -> None:
        """Observe one entry; a commit that was refused means that another worker answered it."""
        if self._instruments is not None and result == "committed":
            self._instruments.record(request)
        span = request.delivery.traced.span
        if self.tracer is not None and span.is_recording():
            describe_recall(request.facts, request.answer, span, self.tracer, with_content=self._with_content)

    def shutdown(self) -> None:
        """Export what is left. Blocks while a collector that is away is retried."""
        self._traces.shutdown()
        self._meters.shutdown()


@contextlib.asynccontextmanager
async def observing(settings: Settings) -> AsyncGenerator[Observer]:
    """The observer that the settings ask for, with its port open and its exporters running.

    SettingsError when the port cannot be had, or OTLP is asked for and cannot be spoken.
    """
    otlp, registry, readers = otlp_exporters(), CollectorRegistry(), list[MetricReader]()
    if settings.health_port is not None:
        readers.append(
            PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
        )
    if otlp is not None:
        readers.append(PeriodicExportingMetricReader(otlp[1]))
    observer = Observer(settings, readers=tuple(readers), spans=BatchSpanProcessor(otlp[0]) if otlp else None)
    try:
        async with _serving(settings, observer, registry):
            yield observer
    finally:
        if readers:
            await _within(_FLUSH_S, observer.shutdown)


@contextlib.asynccontextmanager
async def _serving(settings: Settings, observer: Observer, registry: CollectorRegistry) -> AsyncGenerator[None]:
    if settings.health_port is None:
        yield
        return
    loop, last_tick = asyncio.get_running_loop(), time.monotonic()
    one_scrape = threading.Lock()  # two at a time would split the exporter's families between them

    async def tick() -> None:
        nonlocal last_tick
        while True:
            last_tick = time.monotonic()
            await asyncio.sleep(_EVERY_S)

    def found(name: str, is_so: bool, told: Mapping[str, object]) -> tuple[HTTPStatus, bytes, str]:
        return json_answer(HTTPStatus.OK if is_so else HTTPStatus.SERVICE_UNAVAILABLE, {name: is_so, **told})

    def live() -> tuple[HTTPStatus, bytes, str]:
        silent_s = time.monotonic() - last_tick
        return found("live", silent_s < _HANGS_AFTER_S, {"silent_s": round(silent_s, 3)})

    def ready() -> tuple[HTTPStatus, bytes, str]:
        asked = asyncio.run_coroutine_threadsafe(observer.readiness.check(), loop)
        try:
            checks: Mapping[str, str | None] = asked.result(_LOOK_S)
        except TimeoutError:
            asked.cancel()
            checks = {"loop": f"the event loop did not answer within {_LOOK_S:g} s"}
        told = {name: {"ok": True} if why is None else {"ok": False, "reason": why} for name, why in checks.items()}
        return found("ready", not any(checks.values()), {"checks": told})

    def metrics() -> tuple[HTTPStatus, bytes, str]:
        with one_scrape:
            return HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST

    routes = {"/live": live, "/ready": ready, "/metrics": metrics}
    port = HttpPort(settings.health_host, settings.health_port, routes)
    ticking = asyncio.create_task(tick(), name="loop watch")
    port.start()
    observer.url = port.url
    try:
        yield
    finally:
        await port.stop()
        await observer.readiness.close()
        await cancel(ticking)


async def _within(longest_s: float, blocking: Callable[[], None]) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        blocking()
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="flush telemetry", daemon=True).start()
    await sleep(longest_s, done)


_SILENCE_S = 5.0
_MOST_CONNECTIONS = 32
_STOP_S = 5.0

Route = Callable[[], tuple[HTTPStatus, bytes, str]]
"""Status, body and content type; called in a thread of its own."""


def json_answer(status: HTTPStatus, value: object) -> tuple[HTTPStatus, bytes, str]:
    return status, json.dumps(value).encode() + b"\n", "application/json"


class HttpPort(ThreadingHTTPServer):
    """A small HTTP server in threads of its own, so that it answers while the worker hangs.

    It serves GET and HEAD by path, one request a connection, and 32 connections at a time, each of which may be
    silent for five seconds: no client can harm the worker. Port 0 takes a free one: `url` says which.
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
        route = self.server.routes.get(self.path.partition("?")[0])
        missing = {"error": f"there is {', '.join(self.server.routes)}"}
        status, body, content_type = route() if route else json_answer(HTTPStatus.NOT_FOUND, missing)
        self.send_response(status)
        headers = {"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in (headers | {"Cache-Control": "no-store"}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 (named by the base class)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; SettingsError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"ORION_HEALTH_PORT: cannot listen on {host} port {port}: {error}") from error
