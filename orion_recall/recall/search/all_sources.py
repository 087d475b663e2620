"""The search of all sources at once: breakers, retries, the fallback while the index is away, and further lists.

Of a hundred thousand memories, those of one weekend are seldom among the best hundred: the index is asked once more
inside a named time, and for what others report of somebody. These hits are further lists in the fusion.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from orion_recall.errors import ModelError, PartialSourceError, SourceError, TransientSourceError
from orion_recall.interfaces import Source, answers_for
from orion_recall.profile.sections import TimeInQuestions
from orion_recall.recall.types import FallbackSource, Pool, Requests
from orion_recall.recall.understand.people import SaidBy
from orion_recall.scoring.intervals import WIDENED_S, told_ranges
from orion_recall.source_specs import BUILT_IN_NAMES, source_names
from orion_recall.sources.several_stores import Breaker
from orion_recall.tasks import Waited, in_time, noticed
from orion_recall.values import (
    Hit,
    Interval,
    Question,
    Scope,
    SearchRequest,
    SourceName,
    SourceReport,
    SourceStatus,
)

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


def asks_others(reports: Iterable[SourceReport]) -> bool:
    """Whether a source of another package was searched."""
    return any(report.source not in BUILT_IN_NAMES and report.status != "off" for report in reports)


MOST_KINDS = 8
"""Kinds of one query that are searched for each alone; of more there is one list."""
_RETRY_PAUSE_S = 0.02
_ENDING_S = 0.05


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
    reports = {name: SourceReport(source=name, status="off") for name in source_names()}
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
        unfinished = await _ended(tasks)
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


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Those that had not ended, cancelled. They end within a turn or two of the loop, or are not waited for."""
    unfinished = {task for task in tasks if task.cancel()}
    if unfinished:
        await asyncio.wait(unfinished, timeout=_ENDING_S)
    return unfinished


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
    if not all(map(math.isfinite, [hit.score for one in lists for hit in one])):
        return report((), f"the source {source.name} gives scores that are no numbers")
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


class Further(NamedTuple):
    """A further request to the index. `is_flat`: every hit is worth the same. `of_others`: its list counts although
    the first search of its source failed, such as for want of a filter."""

    request: SearchRequest
    is_flat: bool = False
    of_others: bool = False


def time_requests(question: Question, request: SearchRequest, profile: TimeInQuestions) -> list[Further]:
    """The requests for the times in the question that the profile wants to be searched."""
    time, scope, found = question.time, request.scope, list[Further]()
    if time.of != "told" and time.intervals and profile.weight_of_search(of_past=time.is_past(question.now)):
        found.append(Further(replace(request, scope=within(scope, time.intervals))))
    if profile.told_search_weight and (told := told_ranges(time, question.now)):
        # An appointment need not resemble the question: every one of that time is an answer.
        found.append(Further(replace(request, scope=replace(scope, told=told), min_score=-1.0), is_flat=True))
    return found


def requests_of_speaker(requests: Requests, said: SaidBy | None) -> Requests:
    """The requests of a search: the index's for the person's own turns of the time asked about."""
    if said is None or not said.is_strict:
        return requests
    return {
        name: _of_speaker(request, said, said.speakers) if name in INDEX_SOURCES else request
        for name, request in requests.items()
    }


def reports_of_others(request: SearchRequest, said: SaidBy | None) -> list[Further]:
    """The request for what is asked for whoever said it: others may report somebody's words."""
    if said is None or not said.is_strict or not said.speakers:
        return []
    return [Further(_of_speaker(request, said, ()), of_others=True)]


async def _with_further(
    pool: Pool, searching: Coroutine[Any, Any, list[SourceReport]], further: Sequence[Further]
) -> tuple[list[SourceReport], list[SourceReport]]:
    """The reports of the search, and those of the further requests to the index that come in time; all at once."""
    sources, until = pool.sources.by_name, time.perf_counter() + pool.limits.source_s
    names: list[SourceName] = [name for name in INDEX_SOURCES if name in sources and name in pool.requests]
    lists: list[tuple[SourceName, Further, asyncio.Task[Sequence[Hit]]]] = [
        (name, one, asyncio.create_task(_hits(sources[name], one.request))) for one in further for name in names
    ]
    try:
        reports = await searching
        well = {report.source for report in reports if report.status in ("ok", "empty")}
        lists_of_well = [each for each in lists if each[1].of_others or each[0] in well]
        if lists_of_well:
            waited = [task for *_, task in lists_of_well]
            await asyncio.wait(waited, timeout=max(0.0, until - time.perf_counter()))
        return reports, [
            SourceReport(source=name, status="ok", hits=tuple(hits), is_flat=one.is_flat)
            for name, one, task in lists_of_well
            if task.done() and (hits := task.result())
        ]
    finally:
        await _ended([task for *_, task in lists])


async def search(pool: Pool) -> None:
    """Every source at once, and the further lists of times and of others' words; or the hits of other passes."""
    said, sources = pool.understood.said_by, pool.sources
    if (given := pool.given) is not None:
        pool.found.reports, pool.found.within = given.reports, given.within
    else:
        kinds = () if pool.query.options is None else pool.query.options.kinds
        searching = search_all(
            sources.by_name,
            requests_of_speaker(pool.requests, said),
            sources.breakers,
            timeout_s=pool.limits.source_s,
            retries=pool.profile.source_retries,
            fallback=sources.fallback,
            by_kind=1 < len(kinds) <= MOST_KINDS,
        )
        request = next(iter(pool.requests.values()), None)  # sources are asked for the same
        further = [] if request is None else reports_of_others(request, said)
        if request is not None and not pool.is_recap:  # a period is listed as a whole
            further = [*time_requests(pool.question, request, pool.profile.time), *further]
        reports, inside = await _with_further(pool, searching, further)
        pool.found.reports, pool.found.within = tuple(reports), tuple(inside)
    pool.is_away = index_is_away(pool.found.reports)
    pool.times.done("search")


def within(scope: Scope, intervals: Sequence[Interval], *, widened_s: float = WIDENED_S) -> Scope:
    """The scope, narrowed to the time that the intervals cover together and so much more on both sides."""
    starts = [one.start - widened_s for one in intervals if one.start is not None]
    ends = [one.end + widened_s for one in intervals if one.end is not None]
    since = [min(starts)] if starts and len(starts) == len(intervals) else []
    until = [max(ends)] if ends and len(ends) == len(intervals) else []
    return replace(
        scope,
        since=max([*since, *([] if scope.since is None else [scope.since])], default=None),
        until=min([*until, *([] if scope.until is None else [scope.until])], default=None),
    )


def _of_speaker(request: SearchRequest, said: SaidBy, speakers: tuple[str, ...]) -> SearchRequest:
    scope = within(request.scope, said.intervals, widened_s=0.0)
    return replace(request, scope=replace(scope, speakers=speakers or scope.speakers))


async def _hits(source: Source, request: SearchRequest) -> Sequence[Hit]:
    try:
        return await source.search(request)
    except PartialSourceError as error:  # an external store knows nothing of told times
        return error.hits
    except (SourceError, ModelError):
        return ()
