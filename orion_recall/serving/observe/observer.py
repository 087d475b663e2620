"""The observer of a service: its metrics and traces, and the health port that serves them.

Without a health port and an OTLP endpoint only the one-line report is kept, and observing costs next to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from redis.asyncio import Redis

from orion_recall.serving.observe.metrics import Gauges, Instruments, ObservedService
from orion_recall.serving.observe.port import HttpPort, Readiness, json_answer
from orion_recall.serving.observe.spans import describe_recall, otlp_exporters
from orion_recall.serving.worker import ServedMessage
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, sleep
from orion_recall.telemetry import INSTRUMENTATION, RESOURCE

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
        self._traces = TracerProvider(resource=RESOURCE, shutdown_on_exit=False) if spans is not None else None
        self.tracer: Tracer | None = None
        if self._traces is not None and spans is not None:
            self._traces.add_span_processor(spans)
            self.tracer = self._traces.get_tracer(INSTRUMENTATION)

    def attach(self, running: ObservedService, redis: Redis) -> None:
        """Read metrics and readiness from this service from now on."""
        if self._instruments is not None:
            Gauges(self._meter, running)
        self.readiness.attach(running, redis)

    def served(self, served: ServedMessage) -> None:
        if self._instruments is not None:
            self._instruments.record(served)
        if self.tracer is not None and served.traced.span.is_recording():
            describe_recall(served, self.tracer, with_content=self._with_content)

    def shutdown(self) -> None:
        """Export what is left. Blocks while a collector that is away is retried."""
        if self._traces is not None:
            self._traces.shutdown()
        self._meters.shutdown()


@contextlib.asynccontextmanager
async def observing(settings: Settings) -> AsyncGenerator[Observer]:
    """The observer that the settings ask for, with its port open and its exporters running.

    SettingsError when the port cannot be had, or OTLP is asked for and cannot be spoken.
    """
    otlp = otlp_exporters()
    readers: list[MetricReader] = []
    registry = CollectorRegistry()
    if settings.health_port is not None:
        readers.append(
            PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
        )
    if otlp is not None:
        readers.append(PeriodicExportingMetricReader(otlp[1]))
    observer = Observer(
        settings, readers=tuple(readers), spans=BatchSpanProcessor(otlp[0]) if otlp is not None else None
    )
    try:
        if settings.health_port is None:
            yield observer
        else:
            async with _serving(settings.health_host, settings.health_port, observer, registry):
                yield observer
    finally:
        if readers:
            await _within(_FLUSH_S, observer.shutdown)


@contextlib.asynccontextmanager
async def _serving(host: str, number: int, observer: Observer, registry: CollectorRegistry) -> AsyncGenerator[None]:
    loop, last_tick = asyncio.get_running_loop(), time.monotonic()
    one_scrape = threading.Lock()  # two at a time would split the exporter's families between them

    async def tick() -> None:
        nonlocal last_tick
        while True:
            last_tick = time.monotonic()
            await asyncio.sleep(_EVERY_S)

    def live() -> tuple[HTTPStatus, bytes, str]:
        silent_s = time.monotonic() - last_tick
        turns = silent_s < _HANGS_AFTER_S
        status = HTTPStatus.OK if turns else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer(status, {"live": turns, "silent_s": round(silent_s, 3)})

    def ready() -> tuple[HTTPStatus, bytes, str]:
        asked = asyncio.run_coroutine_threadsafe(observer.readiness.check(), loop)
        try:
            checks = asked.result(_LOOK_S).checks
        except TimeoutError:
            asked.cancel()
            checks = {"loop": f"the event loop did not answer within {_LOOK_S:g} s"}
        is_ready = not any(checks.values())
        told = {name: {"ok": True} if why is None else {"ok": False, "reason": why} for name, why in checks.items()}
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return json_answer(status, {"ready": is_ready, "checks": told})

    def metrics() -> tuple[HTTPStatus, bytes, str]:
        with one_scrape:
            return HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST

    port = HttpPort(host, number, {"/live": live, "/ready": ready, "/metrics": metrics})
    ticking = asyncio.create_task(tick(), name="loop watch")
    port.start()
    observer.url = port.url
    try:
        yield
    finally:
        await port.stop()
        await cancel(ticking)
        await observer.readiness.close()


async def _within(longest_s: float, blocking: Callable[[], None]) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        blocking()
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="flush telemetry", daemon=True).start()
    await sleep(longest_s, done)
