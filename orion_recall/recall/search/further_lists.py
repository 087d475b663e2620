"""Further lists of a search: the index searched again inside a named time, and for what others report of somebody.

Of a hundred thousand memories, those of one weekend are seldom among the best hundred. So the sources of the index
may be asked once more, at once with the first search. Their hits are further lists in the fusion.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from orion_recall.errors import ModelError, PartialSourceError, SourceError
from orion_recall.interfaces import Source
from orion_recall.profile.sections import TimeInQuestions
from orion_recall.recall.search.all_sources import INDEX_SOURCES
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.scoring.intervals import WIDENED_S, told_ranges
from orion_recall.values import Hit, Interval, Question, Scope, SearchRequest, SourceName, SourceReport

Requests = Mapping[SourceName, SearchRequest]
REPORTS_WEIGHT = 0.5
"""The weight in the fusion of a list of reports, where the person's own turns have 1."""
_ENDING_S = 0.05


class Further(NamedTuple):
    """A further request to the sources of the index. `is_flat`: every hit is worth the same.

    `of_others`: its list counts although the first search of its source failed, such as for want of a filter.
    """

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


async def with_further(
    searching: Coroutine[Any, Any, list[SourceReport]],
    further: Sequence[Further],
    sources: Mapping[SourceName, Source],
    requests: Requests,
    *,
    timeout_s: float,
) -> tuple[list[SourceReport], list[SourceReport]]:
    """The reports of the search, and those of the further requests to the index; all are searched at once.

    A list that does not come in time is left out.
    """
    until = time.perf_counter() + timeout_s
    names: list[SourceName] = [name for name in INDEX_SOURCES if name in sources and name in requests]
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
        unfinished = {task for *_, task in lists if task.cancel()}
        if unfinished:  # they end within a turn or two of the loop; one that does not is not waited for
            await asyncio.wait(unfinished, timeout=_ENDING_S)


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
