"""The search for what somebody said: that person's own turns first, and what others report of them.

The sources of the index search only the person's turns, of the time that the question names. Beside it they are
asked without the person, for texts of others that report what was said: their hits are further lists in the fusion.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import Source
from orion_recall.recall.search.fallback import INDEX_SOURCES
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.values import Hit, Interval, Scope, SearchRequest, SourceName, SourceReport

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
            asked[name] = asyncio.create_task(_hits(sources[name], request))
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


async def _hits(source: Source, request: SearchRequest) -> Sequence[Hit]:
    try:
        return await source.search(request)
    except (SourceError, ModelError):
        return ()
