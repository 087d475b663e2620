"""The time search: the index searched a second time, inside the time that a question names.

Of a hundred thousand memories, those of one weekend are seldom among the best hundred. So the sources of the index
may be asked a second time, at once with the first, for what was said in that time alone, and for what tells of it.
Their hits are further lists in the fusion, where the closest memory of the named time has its list's full weight,
and every memory that tells of it: a calendar's entries all answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self

from orion_recall.errors import ModelError, PartialSourceError, SourceError
from orion_recall.interfaces import Source
from orion_recall.profile.sections import TimeInQuestions
from orion_recall.recall.search.fallback import INDEX_SOURCES
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
