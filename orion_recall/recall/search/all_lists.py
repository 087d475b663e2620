"""All lists of a search pass: each source's, those of the named time, and others' reports of somebody's words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from orion_recall.recall.search.all_sources import search_all
from orion_recall.recall.search.said_search import asks_of_others, reports_of_others, requests_of_speaker
from orion_recall.recall.search.time_search import SearchedTimes, TimeSearch
from orion_recall.recall.types import Sources
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.values import SearchRequest, SourceName, SourceReport


async def search_lists(
    sources: Sources,
    asked: Mapping[SourceName, SearchRequest],
    *,
    times: SearchedTimes,
    said: SaidBy | None,
    by_kind: bool,
    timeout_s: float,
    retries: int,
) -> tuple[Sequence[SourceReport], Sequence[SourceReport]]:
    """The reports of every source, and the further lists; all are searched at once.

    `times` are searched a second time. `said`: one person's words are asked for, and the index is searched for
    them. `by_kind`: every source is searched for each kind of the request's scope alone.
    """
    until = time.perf_counter() + timeout_s
    async with TimeSearch(sources.by_name, asked, times) as searches:
        searching = search_all(
            sources.by_name,
            requests_of_speaker(asked, said),
            sources.breakers,
            timeout_s=timeout_s,
            retries=retries,
            fallback=sources.fallback,
            by_kind=by_kind,
        )
        if asks_of_others(said):
            others = reports_of_others(sources.by_name, asked, said, timeout_s=timeout_s)
            reports, reported = await asyncio.gather(searching, others)
        else:
            reports, reported = await searching, []
        return reports, [*await searches.reports(reports, until=until), *reported]
