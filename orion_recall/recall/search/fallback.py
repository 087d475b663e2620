"""What answers in the place of the index while both of its arms are silent, inside the time they all have.

It begins as soon as they have failed, or when half of the time has passed without a word of either: an index that
hangs would leave none. What it finds counts only if the index has not answered by the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from orion_recall.values import SourceName, SourceReport

INDEX_ARMS: tuple[SourceName, ...] = ("lexical", "vector")
SILENT = ("failed", "late")
RECORD = "record"
# The share of the time after which the index is no longer waited for alone.
PATIENCE = 0.5


async def stand_in(
    arms: Collection[asyncio.Task[SourceReport]],
    search: Callable[[], Coroutine[Any, Any, SourceReport]],
    *,
    patience_s: float,
) -> SourceReport | None:
    """The report of `search`, which is begun when it is needed; None once an arm has answered."""
    waiting = set(arms)
    until = asyncio.get_running_loop().time() + patience_s
    while waiting:
        left_s = until - asyncio.get_running_loop().time()
        done, waiting = await asyncio.wait(waiting, timeout=max(left_s, 0), return_when=asyncio.FIRST_COMPLETED)
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


def _any_answered(arms: Collection[asyncio.Task[SourceReport]]) -> bool:
    return any(not arm.cancelled() and arm.exception() is None and not is_silent(arm.result()) for arm in arms)


def index_is_away(reports: Iterable[SourceReport]) -> bool:
    """Whether the index was asked and neither of its arms answered."""
    asked = [report for report in reports if report.source in INDEX_ARMS and report.status != "off"]
    return bool(asked) and all(is_silent(report) for report in asked)


def is_silent(report: SourceReport) -> bool:
    """Whether nothing came. An arm over several stores, one of which failed, has failed and still has hits."""
    return report.status in SILENT and (not report.hits or report.stood_in is not None)


def with_stand_in(silent: SourceReport, found: SourceReport | None) -> SourceReport:
    """The silent arm's report with the hits that were found in its place, or with why there are none."""
    if found is not None and found.status not in SILENT:
        return replace(silent, hits=found.hits, stood_in=RECORD)
    why = found.error if found is not None else "no answer in time"
    return replace(silent, error=f"{silent.error}; the {RECORD} could not stand in: {why}")
