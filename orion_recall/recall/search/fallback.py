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


class FallbackSearch:
    """Begins `search` when it is needed; `task` is its task then, which gives None once the index has answered.

    Until then it costs a timer and no task: of a healthy index each recall would have one for nothing.
    """

    def __init__(
        self,
        index: Collection[asyncio.Task[SourceReport]],
        search: Callable[[], Coroutine[Any, Any, SourceReport]],
        *,
        patience_s: float,
    ) -> None:
        self.task: asyncio.Task[SourceReport | None] | None = None
        self._search, self._waiting = search, set(index)
        self._timer = asyncio.get_running_loop().call_later(max(patience_s, 0), self._begin)
        for one in index:
            one.add_done_callback(self._ended)

    def end(self) -> None:
        """Do not begin it any more; one that has begun is for the caller to end."""
        self._timer.cancel()
        for one in self._waiting:
            one.remove_done_callback(self._ended)

    def _ended(self, one: asyncio.Task[SourceReport]) -> None:
        self._waiting.discard(one)
        if self.task is not None:
            return  # which watches the index itself
        if _any_answered([one]):
            self.end()
        elif not self._waiting:
            self._begin()

    def _begin(self) -> None:
        self.end()
        self.task = asyncio.create_task(self._searched(set(self._waiting)))

    async def _searched(self, waiting: set[asyncio.Task[SourceReport]]) -> SourceReport | None:
        """The report of `search`; None once a source of the index has answered."""
        searching = asyncio.create_task(self._search())
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
