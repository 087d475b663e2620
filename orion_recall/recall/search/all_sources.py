"""All sources at once, each with its own deadline, retries inside it, and a status.

What goes wrong in a source costs that source's hits, never the answer. A source that keeps failing is left alone
for a while, so that a dead server costs a query nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from orion_recall.errors import ModelError, PartialSourceError, ScopeNotKept, SourceError, TransientSourceError
from orion_recall.interfaces import Source, answers_for
from orion_recall.recall.search.fallback import INDEX_ARMS, PATIENCE, index_is_away, stand_in, with_stand_in
from orion_recall.sources.breaker import Breaker
from orion_recall.values import SOURCE_NAMES, Hit, SearchRequest, SourceName, SourceReport

_RETRY_PAUSE_S = 0.02
_ENDING_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What is searched while the index is away, and how it has done lately."""

    source: Source
    breaker: Breaker = field(default_factory=Breaker)


async def search_all(
    sources: Mapping[SourceName, Source],
    requests: Mapping[SourceName, SearchRequest],
    breakers: Mapping[SourceName, Breaker],
    *,
    timeout_s: float,
    retries: int,
    standing_by: StandIn | None = None,
) -> list[SourceReport]:
    """One report for every source there is; those without a request, or not configured, are `off`.

    `standing_by` is searched when neither arm of the index answers; its hits are in the silent arm's report.
    """
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
    index: list[SourceName] = [name for name in INDEX_ARMS if name in searches]
    standing: asyncio.Task[SourceReport | None] | None = None
    if standing_by is not None and index:
        search = partial(_search, standing_by.source, requests[index[0]], standing_by.breaker, 0)
        arms = [searches[name] for name in index]
        standing = asyncio.create_task(stand_in(arms, search, patience_s=timeout_s * PATIENCE))
    tasks: set[asyncio.Task[Any]] = {*searches.values(), *({standing} if standing else ())}
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        unfinished = {task for task in tasks if task.cancel()}
        if unfinished:  # they end in a turn or two; one that does not is not waited for
            await asyncio.wait(unfinished, timeout=_ENDING_S)
    for name, task in searches.items():
        reports[name] = _late(name, breakers[name], timeout_s, began) if task in unfinished else task.result()
    if standing is not None and standing_by is not None and index_is_away(reports.values()):
        if standing in unfinished:
            standing_by.breaker.record(f"no answer within {timeout_s * 1000:.0f} ms", time.monotonic())
        reports[index[0]] = with_stand_in(reports[index[0]], None if standing in unfinished else standing.result())
    return list(reports.values())


def _late(name: SourceName, breaker: Breaker, timeout_s: float, began: float) -> SourceReport:
    error = f"no answer within {timeout_s * 1000:.0f} ms"
    breaker.record(error, time.monotonic())
    return SourceReport(source=name, status="late", ms=(time.perf_counter() - began) * 1000, error=error)


async def _search(source: Source, request: SearchRequest, breaker: Breaker, retries: int) -> SourceReport:
    started = time.perf_counter()
    if not answers_for(source, request.scope.tenant):  # what others met there is not for this tenant
        return SourceReport(source=source.name, status="empty")
    if not breaker.lets_through(time.monotonic()):
        return SourceReport(source=source.name, status="failed", error=f"left alone after: {breaker.last_error}")
    try:
        hits = await _with_retries(source, request, retries)
    except PartialSourceError as error:  # its hits count, and the answer is no whole one
        breaker.record(None, time.monotonic())
        ms = (time.perf_counter() - started) * 1000
        return SourceReport(source=source.name, status="failed", hits=tuple(error.hits), ms=ms, error=str(error))
    except (SourceError, ModelError) as error:
        if not isinstance(error, ScopeNotKept):
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
