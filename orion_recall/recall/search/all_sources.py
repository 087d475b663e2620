"""The search of all sources at once: breakers, retries, the fallback while the index is away, and further lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from orion_recall.errors import ModelError, PartialSourceError, SourceError, TransientSourceError
from orion_recall.interfaces import Source, answers_for
from orion_recall.sources.several_stores import Breaker
from orion_recall.tasks import Waited, in_time, noticed
from orion_recall.values import SOURCE_NAMES, Hit, SearchRequest, SourceName, SourceReport, SourceStatus

T = TypeVar("T")
D = TypeVar("D")
INDEX_SOURCES: tuple[SourceName, ...] = ("lexical", "vector")
SILENT = ("failed", "late")
RECORD = "record"
# The share of the time after which the fallback is searched although the index may still answer.
PATIENCE = 0.5


async def or_else(work: Coroutine[Any, Any, T], default: D, timeout_s: float) -> T | D:
    """The result of the work; the default after an error of source or model, or where it takes longer."""
    if timeout_s <= 0:
        work.close()
        return default
    try:
        return await in_time(work, timeout_s)
    except (SourceError, ModelError, TimeoutError):
        return default


async def _fallback(
    index: Collection[asyncio.Task[SourceReport]],
    search: Callable[[], Coroutine[Any, Any, SourceReport]],
    *,
    patience_s: float,
) -> SourceReport | None:
    """The report of `search`, which begins once the index is silent or slow; None as soon as the index answers."""
    waiting, until = set(index), time.perf_counter() + patience_s
    while waiting:
        left_s = max(until - time.perf_counter(), 0)
        done, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if _any_answered(done):
            return None
        if not done:
            break
    searching = asyncio.create_task(search())
    try:
        while not searching.done():
            done, _ = await asyncio.wait({searching, *waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= done
            if _any_answered(done - {searching}):
                return None
        return searching.result()
    finally:
        searching.cancel()


def _any_answered(tasks: Collection[asyncio.Task[SourceReport]]) -> bool:
    return any(not task.cancelled() and task.exception() is None and not is_silent(task.result()) for task in tasks)


def index_is_away(reports: Iterable[SourceReport]) -> bool:
    """Whether the index was asked and neither of its sources answered."""
    asked = [report for report in reports if report.source in INDEX_SOURCES and report.status != "off"]
    return bool(asked) and all(is_silent(report) for report in asked)


def is_silent(report: SourceReport) -> bool:
    """Whether the source gave no hits of its own. One over several stores may have failed and still have hits."""
    return report.status in SILENT and (not report.hits or report.fallback is not None)


def _with_fallback(silent: SourceReport, found: SourceReport | None) -> SourceReport:
    if found is not None and found.status not in SILENT:
        return replace(silent, hits=found.hits, fallback=RECORD)
    why = found.error if found is not None else "no answer in time"
    return replace(silent, error=f"{silent.error}; the fallback ({RECORD}) failed: {why}")


MOST_KINDS = 8
"""Kinds of one query that are searched for each alone; of more there is one list."""
_RETRY_PAUSE_S = 0.02
_ENDING_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackSource:
    """The source that is searched while the index is away, and its breaker."""

    source: Source
    breaker: Breaker = field(default_factory=Breaker)


async def search_all(
    sources: Mapping[SourceName, Source],
    requests: Mapping[SourceName, SearchRequest],
    breakers: Mapping[SourceName, Breaker],
    *,
    timeout_s: float,
    retries: int,
    fallback: FallbackSource | None = None,
    by_kind: bool = False,
) -> list[SourceReport]:
    """One report for every source; a source without a request, or not configured, is `off`.

    `fallback` is searched when neither source of the index answers; its hits are in that source's report. With
    `by_kind` each source is searched for each kind of the scope alone, at once, so that no kind crowds out another.
    """
    searches: dict[SourceName, asyncio.Task[SourceReport]] = {}
    waited: dict[SourceName, Waited] = {}
    reports = {name: SourceReport(source=name, status="off") for name in SOURCE_NAMES}
    began = time.perf_counter()
    for name, request in requests.items():
        if (source := sources.get(name)) is None:
            continue
        if timeout_s <= 0:
            reports[name] = SourceReport(source=name, status="late", error="no time was left")
        else:
            searches[name], waited[name] = noticed(_search(source, request, breakers[name], retries, by_kind))
    index: list[SourceName] = [name for name in INDEX_SOURCES if name in searches]
    tasks: set[asyncio.Task[Any]] = set(searches.values())
    instead: asyncio.Task[SourceReport | None] | None = None
    if fallback is not None and index:
        search = partial(_search, fallback.source, requests[index[0]], fallback.breaker, 0)
        silent = [searches[name] for name in index]
        tasks.add(instead := asyncio.create_task(_fallback(silent, search, patience_s=timeout_s * PATIENCE)))
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        unfinished = {task for task in tasks if task.cancel()}
        if unfinished:  # they end within a turn or two of the loop; one that does not is not waited for
            await asyncio.wait(unfinished, timeout=_ENDING_S)
    for name, task in searches.items():
        is_late, is_excused = task in unfinished, requests[name].is_short or waited[name].is_set
        reports[name] = _late(name, breakers[name], timeout_s, began, is_excused) if is_late else task.result()
    if instead is not None and fallback is not None and index_is_away(reports.values()):
        if instead in unfinished:
            error = f"no answer within {timeout_s * 1000:.0f} ms"
            fallback.breaker.record_late(error, time.monotonic(), is_excused=requests[index[0]].is_short)
        found = None if instead in unfinished else instead.result()
        reports[index[0]] = _with_fallback(reports[index[0]], found)
    return list(reports.values())


def _late(name: SourceName, breaker: Breaker, timeout_s: float, began: float, is_excused: bool) -> SourceReport:
    error = f"no answer within {timeout_s * 1000:.0f} ms"
    breaker.record_late(error, time.monotonic(), is_excused=is_excused)
    return SourceReport(source=name, status="late", ms=(time.perf_counter() - began) * 1000, error=error)


async def _search(
    source: Source, request: SearchRequest, breaker: Breaker, retries: int, by_kind: bool = False
) -> SourceReport:
    began = time.perf_counter()

    def report(hits: Sequence[Hit], error: object = None, lists: Sequence[Sequence[Hit]] = ()) -> SourceReport:
        status: SourceStatus = "failed" if error is not None else "ok" if hits else "empty"
        return SourceReport(
            source=source.name,
            status=status,
            hits=tuple(hits),
            ms=(time.perf_counter() - began) * 1000,
            error=None if error is None else str(error),
            lists=tuple(tuple(one) for one in lists if one),
        )

    if not answers_for(source, request.scope.tenant):  # nor is an error that other tenants had there
        return SourceReport(source=source.name, status="empty")
    if not breaker.lets_through(time.monotonic(), is_short=request.is_short):
        return SourceReport(source=source.name, status="failed", error=f"left alone after: {breaker.last_error}")
    requests = [request]
    if by_kind:
        requests = [replace(request, scope=replace(request.scope, kinds=(kind,))) for kind in request.scope.kinds]
    try:
        lists = await _lists(source, requests, retries)
    except PartialSourceError as error:  # its hits count, and the answer is degraded
        breaker.record(None, time.monotonic())
        return report(error.hits, error)
    except (SourceError, ModelError) as error:
        breaker.record_error(error, time.monotonic())
        return report((), error)
    breaker.record(None, time.monotonic())
    return report(lists[0]) if len(lists) == 1 else report(_together(lists), lists=lists)


def _together(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    return sorted((hit for one in lists for hit in one), key=lambda hit: (-hit.score, hit.key))


async def _lists(source: Source, requests: Sequence[SearchRequest], retries: int) -> Sequence[Sequence[Hit]]:
    """The hits of each request, searched at once. Raises what the first raises that fails, or of its parts."""
    if len(requests) == 1:
        return [await _with_retries(source, requests[0], retries)]
    found = await asyncio.gather(
        *(_with_retries(source, request, retries) for request in requests), return_exceptions=True
    )
    partial_error: PartialSourceError | None = None
    lists: list[Sequence[Hit]] = []
    for one in found:
        if isinstance(one, PartialSourceError):
            partial_error = partial_error or one
            lists.append(one.hits)
        elif isinstance(one, BaseException):
            raise one
        else:
            lists.append(one)
    if partial_error is not None:
        raise PartialSourceError(str(partial_error), _together(lists))
    return lists


async def _with_retries(source: Source, request: SearchRequest, retries: int) -> Sequence[Hit]:
    for attempt in range(retries + 1):
        try:
            return await source.search(request)
        except TransientSourceError:
            if attempt == retries:
                raise
            await asyncio.sleep(_RETRY_PAUSE_S * 2**attempt)
    raise AssertionError("unreachable")  # pragma: no cover
