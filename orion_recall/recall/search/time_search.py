"""The time search: the index searched a second time, inside the time that a question names.

Of a hundred thousand memories, those of one weekend are seldom among the best hundred. So the sources of the index
may be asked a second time, at once with the first, for that time alone. Their hits are further lists in the fusion,
where the closest memory of the named time has its list's full weight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import Source
from orion_recall.recall.search.fallback import INDEX_SOURCES
from orion_recall.scoring.time_overlap import WIDENED_S
from orion_recall.values import Hit, Interval, Scope, SearchRequest, SourceName, SourceReport

_ENDING_S = 0.05


class TimeSearch:
    """The second searches: entering the context starts them, leaving it cancels them. No interval, no search."""

    def __init__(
        self,
        sources: Mapping[SourceName, Source],
        requests: Mapping[SourceName, SearchRequest],
        intervals: Sequence[Interval],
    ) -> None:
        self._searches: dict[SourceName, asyncio.Task[Sequence[Hit]]] = {}
        self._wanted: dict[SourceName, tuple[Source, SearchRequest]] = {
            name: (sources[name], replace(requests[name], scope=within(requests[name].scope, intervals)))
            for name in INDEX_SOURCES
            if intervals and name in sources and name in requests
        }

    async def __aenter__(self) -> Self:
        for name, (source, request) in self._wanted.items():
            self._searches[name] = asyncio.create_task(_hits(source, request))
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
        waited: dict[SourceName, asyncio.Task[Sequence[Hit]]] = {
            name: task for name, task in self._searches.items() if name in answered
        }
        if waited:
            await asyncio.wait(waited.values(), timeout=max(0.0, until - time.perf_counter()))
        return [
            SourceReport(source=name, status="ok", hits=tuple(hits))
            for name, task in waited.items()
            if task.done() and (hits := task.result())
        ]


def within(scope: Scope, intervals: Sequence[Interval]) -> Scope:
    """The scope, narrowed to the time that the intervals cover together and a day more on both sides."""
    starts = [one.start - WIDENED_S for one in intervals if one.start is not None]
    ends = [one.end + WIDENED_S for one in intervals if one.end is not None]
    since = [min(starts)] if len(starts) == len(intervals) else []
    until = [max(ends)] if len(ends) == len(intervals) else []
    return replace(
        scope,
        since=max([*since, *([] if scope.since is None else [scope.since])], default=None),
        until=min([*until, *([] if scope.until is None else [scope.until])], default=None),
    )


async def _hits(source: Source, request: SearchRequest) -> Sequence[Hit]:
    try:
        return await source.search(request)
    except (SourceError, ModelError):
        return ()
