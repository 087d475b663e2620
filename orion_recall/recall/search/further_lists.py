"""Further lists of a search: the index searched again inside a named time, and for what others report of somebody.

Of a hundred thousand memories, those of one weekend are seldom among the best hundred. So the sources of the index
may be asked once more, at once with the first search. Their hits are further lists in the fusion.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self, TypeGuard

from orion_recall.errors import ModelError, PartialSourceError, SourceError
from orion_recall.interfaces import Source
from orion_recall.profile.sections import TimeInQuestions
from orion_recall.recall.search.all_sources import INDEX_SOURCES
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.scoring.intervals import WIDENED_S, told_ranges
from orion_recall.values import Hit, Interval, Question, Scope, SearchRequest, SourceName, SourceReport, TimeRange

_ENDING_S = 0.05


_List = tuple[SourceName, bool]
"""A further list: its source, and whether it has what tells of the time."""


class SearchedTimes(NamedTuple):
    """The times that are searched: the intervals of `said`, and the ranges that a text may have `told`."""

    said: Sequence[Interval] = ()
    told: tuple[TimeRange, ...] = ()


def searched_times(question: Question, profile: TimeInQuestions) -> SearchedTimes:
    """The times in the question that the profile wants to be searched."""
    time = question.time
    weight = profile.weight_of_search(of_past=time.is_past(question.now))
    return SearchedTimes(
        said=time.intervals if weight and time.of != "told" else (),
        told=told_ranges(time, question.now) if profile.told_search_weight else (),
    )


class TimeSearch:
    """The second searches: entering the context starts them, leaving it cancels them. No time, no search."""

    def __init__(
        self,
        sources: Mapping[SourceName, Source],
        requests: Mapping[SourceName, SearchRequest],
        times: SearchedTimes,
    ) -> None:
        self._searches: dict[_List, asyncio.Task[Sequence[Hit]]] = {}
        self._wanted: dict[_List, tuple[Source, SearchRequest]] = {}
        for name in INDEX_SOURCES:
            if name not in sources or name not in requests:
                continue
            source, request = sources[name], requests[name]
            if times.said:
                scope = within(request.scope, times.said)
                self._wanted[name, False] = source, replace(request, scope=scope)
            if times.told:
                # An appointment need not resemble the question: every one of that time is an answer.
                scope = replace(request.scope, told=times.told)
                self._wanted[name, True] = source, replace(request, scope=scope, min_score=-1.0)

    async def __aenter__(self) -> Self:
        for one, (source, request) in self._wanted.items():
            self._searches[one] = asyncio.create_task(_hits(source, request))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unfinished = {task for task in self._searches.values() if task.cancel()}
        if unfinished:  # they end within a turn or two of the loop; one that does not is not waited for
            await asyncio.wait(unfinished, timeout=_ENDING_S)

    async def reports(self, reports: Sequence[SourceReport], *, until: float) -> list[SourceReport]:
        """The further lists of the sources whose first search answered; failures are in the first reports.

        `until` is on `time.perf_counter`: a list that has not come by then is left out.
        """
        answered = {report.source for report in reports if report.status in ("ok", "empty")}
        waited: dict[_List, asyncio.Task[Sequence[Hit]]] = {
            one: task for one, task in self._searches.items() if one[0] in answered
        }
        if waited:
            await asyncio.wait(waited.values(), timeout=max(0.0, until - time.perf_counter()))
        return [
            SourceReport(source=name, status="ok", hits=tuple(hits), is_flat=is_told)
            for (name, is_told), task in waited.items()
            if task.done() and (hits := task.result())
        ]


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


async def _hits(source: Source, request: SearchRequest) -> Sequence[Hit]:
    try:
        return await source.search(request)
    except PartialSourceError as error:  # an external store knows nothing of told times
        return error.hits
    except (SourceError, ModelError):
        return ()


Requests = Mapping[SourceName, SearchRequest]
REPORTS_WEIGHT = 0.5
"""The weight in the fusion of a list of reports, where the person's own turns have 1."""


def requests_of_speaker(requests: Requests, said: SaidBy | None) -> Requests:
    """The requests of a search: the index's for the person's own turns of the time asked about."""
    if said is None or not said.is_strict:
        return requests
    return {
        name: replace(request, scope=_narrowed(request.scope, said)) if name in INDEX_SOURCES else request
        for name, request in requests.items()
    }


def asks_of_others(said: SaidBy | None) -> TypeGuard[SaidBy]:
    """Whether others may report what is asked for: somebody's words are."""
    return said is not None and said.is_strict and bool(said.speakers)


async def reports_of_others(
    sources: Mapping[SourceName, Source], requests: Requests, said: SaidBy, *, timeout_s: float
) -> list[SourceReport]:
    """What the index has for the question whoever said it.

    A list that fails or does not come in time is left out: the person's own turns are found without it.
    """
    if timeout_s <= 0:
        return []
    of_all = replace(said, speakers=())
    asked: dict[SourceName, asyncio.Task[Sequence[Hit]]] = {}
    for name in INDEX_SOURCES:
        if name in sources and name in requests:
            request = replace(requests[name], scope=_narrowed(requests[name].scope, of_all))
            asked[name] = asyncio.create_task(_hits_or_none(sources[name], request))
    if not asked:
        return []
    began = time.perf_counter()
    _, unfinished = await asyncio.wait(asked.values(), timeout=timeout_s)
    for task in unfinished:
        task.cancel()
    ms = (time.perf_counter() - began) * 1000
    return [
        SourceReport(source=name, status="ok", hits=tuple(hits), ms=ms)
        for name, task in asked.items()
        if task not in unfinished and (hits := task.result())
    ]


def _narrowed(scope: Scope, said: SaidBy) -> Scope:
    since, until = _hull(said.intervals)
    return replace(
        scope,
        speakers=said.speakers or scope.speakers,
        since=max((one for one in (scope.since, since) if one is not None), default=None),
        until=min((one for one in (scope.until, until) if one is not None), default=None),
    )


def _hull(intervals: Sequence[Interval]) -> tuple[float | None, float | None]:
    """From the first beginning to the last end; None without end on that side."""
    starts = [one.start for one in intervals if one.start is not None]
    ends = [one.end for one in intervals if one.end is not None]
    whole = len(intervals)
    return (
        min(starts) if starts and len(starts) == whole else None,
        max(ends) if ends and len(ends) == whole else None,
    )


async def _hits_or_none(source: Source, request: SearchRequest) -> Sequence[Hit]:
    try:
        return await source.search(request)
    except (SourceError, ModelError):
        return ()
