"""The fallback search: another source answers when neither source of the index does, before the same deadline.

It begins as soon as both have failed, or when half of the time has passed without an answer: an index that hangs
would leave no time. Its hits count only if the index has not answered by the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from orion_recall.values import SourceName, SourceReport

INDEX_SOURCES: tuple[SourceName, ...] = ("lexical", "vector")
SILENT = ("failed", "late")
RECORD = "record"
# The share of the time after which the fallback is searched although the index may still answer.
PATIENCE = 0.5


async def search_fallback(
    index: Collection[asyncio.Task[SourceReport]],
    search: Callable[[], Coroutine[Any, Any, SourceReport]],
    *,
    patience_s: float,
) -> SourceReport | None:
    """The report of `search`, which is begun when it is needed; None once a source of `index` has answered."""
    waiting = set(index)
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


def _any_answered(tasks: Collection[asyncio.Task[SourceReport]]) -> bool:
    return any(not task.cancelled() and task.exception() is None and not is_silent(task.result()) for task in tasks)


def index_is_away(reports: Iterable[SourceReport]) -> bool:
    """Whether the index was asked and neither of its sources answered."""
    asked = [report for report in reports if report.source in INDEX_SOURCES and report.status != "off"]
    return bool(asked) and all(is_silent(report) for report in asked)


def is_silent(report: SourceReport) -> bool:
    """Whether the source gave no hits of its own. One over several stores may have failed and still have hits."""
    return report.status in SILENT and (not report.hits or report.fallback is not None)


def with_fallback(silent: SourceReport, found: SourceReport | None) -> SourceReport:
    """The silent source's report with the fallback's hits, or with why there are none."""
    if found is not None and found.status not in SILENT:
        return replace(silent, hits=found.hits, fallback=RECORD)
    why = found.error if found is not None else "no answer in time"
    return replace(silent, error=f"{silent.error}; the fallback ({RECORD}) failed: {why}")
