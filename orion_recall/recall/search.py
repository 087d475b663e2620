"""All sources at once, each with its own deadline, retries inside it, and a status.

What goes wrong in a source costs that source's hits, never the answer. A source that keeps failing is left alone
for a while, so that a dead server costs a query nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orion_recall.errors import ModelError, SourceError, TransientSourceError
from orion_recall.sources.source import Source
from orion_recall.values import SOURCE_NAMES, Hit, SearchRequest, SourceName, SourceReport

_RETRY_PAUSE_S = 0.02
_FAILURES_TO_OPEN = 3
_LEFT_ALONE_S = 2.0


@dataclass(slots=True)
class Breaker:
    """How a source has done lately. After three failures in a row it is tried once every two seconds."""

    failures: int = 0
    closed_until: float = 0.0
    last_error: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the source is left alone, but for a try now and then."""
        return self.failures >= _FAILURES_TO_OPEN

    def lets_through(self, now: float) -> bool:
        """Whether the source may be asked now; the one that is let through holds the others back."""
        if not self.is_open:
            return True
        if now < self.closed_until:
            return False
        self.closed_until = now + _LEFT_ALONE_S
        return True

    def record(self, error: str | None, now: float) -> None:
        """Note how it went."""
        if error is None:
            self.failures = 0
            return
        self.failures += 1
        self.last_error = error
        if self.is_open:
            self.closed_until = now + _LEFT_ALONE_S


async def search_all(
    sources: Mapping[SourceName, Source],
    requests: Mapping[SourceName, SearchRequest],
    breakers: Mapping[SourceName, Breaker],
    *,
    timeout_s: float,
    retries: int,
) -> list[SourceReport]:
    """One report for every source there is; those without a request, or not configured, are `off`."""
    searches: dict[SourceName, asyncio.Task[SourceReport]] = {}
    reports = {name: SourceReport(source=name, status="off") for name in SOURCE_NAMES}
    began = time.perf_counter()
    for name, request in requests.items():
        if (source := sources.get(name)) is None:
            continue
        if timeout_s <= 0:
            reports[name] = SourceReport(source=name, status="late", error="no time was left")
        else:
            searches[name] = asyncio.create_task(_search(source, request, breakers[name], retries))
    try:
        if searches:
            await asyncio.wait(searches.values(), timeout=timeout_s)
    finally:
        for task in searches.values():
            task.cancel()
    for name, task in searches.items():
        reports[name] = task.result() if task.done() else _late(name, breakers[name], timeout_s, began)
    return list(reports.values())


def _late(name: SourceName, breaker: Breaker, timeout_s: float, began: float) -> SourceReport:
    error = f"no answer within {timeout_s * 1000:.0f} ms"
    breaker.record(error, time.monotonic())
    return SourceReport(source=name, status="late", ms=(time.perf_counter() - began) * 1000, error=error)


async def _search(source: Source, request: SearchRequest, breaker: Breaker, retries: int) -> SourceReport:
    started = time.perf_counter()
    if not breaker.lets_through(time.monotonic()):
        return SourceReport(source=source.name, status="failed", error=f"left alone after: {breaker.last_error}")
    try:
        hits = await _with_retries(source, request, retries)
    except (SourceError, ModelError) as error:
        breaker.record(str(error), time.monotonic())
        ms = (time.perf_counter() - started) * 1000
        return SourceReport(source=source.name, status="failed", ms=ms, error=str(error))
    breaker.record(None, time.monotonic())
    ms = (time.perf_counter() - started) * 1000
    return SourceReport(source=source.name, status="ok" if hits else "empty", hits=tuple(hits), ms=ms)


async def _with_retries(source: Source, request: SearchRequest, retries: int) -> Sequence[Hit]:
    for attempt in range(retries + 1):
        try:
            return await source.search(request)
        except TransientSourceError:
            if attempt == retries:
                raise
            await asyncio.sleep(_RETRY_PAUSE_S * 2**attempt)
    raise AssertionError("unreachable")  # pragma: no cover
