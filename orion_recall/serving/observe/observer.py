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

from orion_recall.serving.observe.heartbeat_fields import SearchReport
from orion_recall.serving.observe.metrics import Gauges, Instruments, ObservedService
from orion_recall.serving.observe.port import Answer, HttpPort, Readiness
from orion_recall.serving.observe.spans import describe_recall, otlp_exporters
from orion_recall.serving.worker import ServedMessage
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, sleep
from orion_recall.telemetry import INSTRUMENTATION, RESOURCE

_EVERY_S = 0.25


class LoopWatch:
    """Ticks on the event loop while `running()`; `silent_s` may be read from any thread."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last tick."""
        return time.monotonic() - self._last

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Tick four times a second during the block."""
        task = asyncio.create_task(self._tick(), name="loop watch")
        try:
            yield
        finally:
            await cancel(task)

    async def _tick(self) -> None:
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(_EVERY_S)


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
        self.readiness, self.report = Readiness(), SearchReport()
        self._with_content = settings.content_capture
        self._meters = MeterProvider(
            readers, RESOURCE, exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False
        )
        self._meter = self._meters.get_meter(INSTRUMENTATION)
        self._instruments = Instruments(self._meter) if readers else None
        self._traces = TracerProvider(resource=RESOURCE, shutdown_on_exit=False) if spans is not None else None
        self._tracer: Tracer | None = None
        if self._traces is not None and spans is not None:
            self._traces.add_span_processor(spans)
            self._tracer = self._traces.get_tracer(INSTRUMENTATION)

    @property
    def tracer(self) -> Tracer | None:
        """The tracer; None when spans are not exported."""
        return self._tracer

    def attach(self, running: ObservedService, redis: Redis) -> None:
        """Read metrics and readiness from this service from now on."""
        if self._instruments is not None:
            Gauges(self._meter, running)
        self.readiness.attach(running, redis)

    def served(self, served: ServedMessage) -> None:
        """Record one entry that has been answered."""
        self.report.record(served)
        if self._instruments is not None:
            self._instruments.record(served)
        if self._tracer is not None and served.traced.span.is_recording():
            describe_recall(served, self._tracer, with_content=self._with_content)

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
        readers.append(PeriodicExportingMetricReader(otlp.metrics))
    observer = Observer(
        settings, readers=tuple(readers), spans=BatchSpanProcessor(otlp.spans) if otlp is not None else None
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
    watch, loop = LoopWatch(), asyncio.get_running_loop()
    one_scrape = asyncio.Lock()  # two at a time would split the exporter's families between them

    async def live() -> Answer:
        silent_s = watch.silent_s
        turns = silent_s < _HANGS_AFTER_S
        status = HTTPStatus.OK if turns else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer.of_json(status, {"live": turns, "silent_s": round(silent_s, 3)})

    async def ready() -> Answer:
        asked = asyncio.run_coroutine_threadsafe(observer.readiness.check(), loop)
        try:
            async with asyncio.timeout(_LOOK_S):
                found = await asyncio.wrap_future(asked)
        except TimeoutError:
            checks = {"loop": {"ok": False, "reason": f"the event loop did not answer within {_LOOK_S:g} s"}}
            return Answer.of_json(HTTPStatus.SERVICE_UNAVAILABLE, {"ready": False, "checks": checks})
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer.of_json(status, found.as_json())

    async def metrics() -> Answer:
        async with one_scrape:
            body = await asyncio.to_thread(generate_latest, registry)
        return Answer(status=HTTPStatus.OK, body=body, content_type=CONTENT_TYPE_LATEST)

    port = HttpPort(host, number, {"/live": live, "/ready": ready, "/metrics": metrics})
    async with watch.running():
        await port.start()
        observer.url = port.url
        try:
            yield
        finally:
            await port.stop()
            await observer.readiness.close()


async def _within(longest_s: float, blocking: Callable[[], None]) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        blocking()
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="flush telemetry", daemon=True).start()
    await sleep(longest_s, done)
