"""The page "Now": the latest decisions as they come, outcomes, and latency by profile and stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from orion_recall.console.visit import Visit
from orion_recall.decisions.log import overview_since
from orion_recall.errors import RecordError
from orion_recall.tasks import sleep

_WINDOWS = {
    "hour": ("the last hour", timedelta(hours=1)),
    "day": ("the last day", timedelta(days=1)),
    "week": ("the last seven days", timedelta(days=7)),
}
_SHOWN = 25
_EVERY_S = 1.0
# The sink writes batches, and workers' clocks differ: a decision may come after one that is newer.
_LATE = timedelta(seconds=30)
MOST_STREAMS = 32
_streams = asyncio.Semaphore(MOST_STREAMS)


async def now_page(visit: Visit) -> Response:
    window = visit.form.text("window")
    window = window if window in _WINDOWS else "hour"
    words, length = _WINDOWS[window]
    now = datetime.now(UTC)
    tenant = visit.access.only_tenant
    overview = await overview_since(visit.console.pool, now - length, tenant=tenant)
    decisions, left_out = await visit.console.log.latest(_SHOWN, tenant=tenant)
    return visit.page(
        "now.html",
        now=now,
        window=window,
        window_words=words,
        windows={name: told for name, (told, _) in _WINDOWS.items()},
        overview=overview,
        slowest=max((stage["p95_ms"] for stage in overview.stages), default=0.0) or 1.0,
        decisions=decisions,
        left_out=left_out,
        most=_SHOWN,
    )


async def now_stream(visit: Visit) -> Response:
    """The decisions after a time, or from now on, as server-sent events; each has one row of the list, as HTML."""
    return _Live(_events(visit), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


class _Live(StreamingResponse):
    """A live list, as long as its browser is there; 503 where there are too many."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _streams.locked():
            raise HTTPException(503, f"{MOST_STREAMS} pages are live already")
        async with _streams:  # at once: nothing waits for a free one
            await super().__call__(scope, receive, send)


async def _events(visit: Visit) -> AsyncGenerator[str]:
    log, tenant = visit.console.log, visit.access.only_tenant
    newest = _after(visit)
    sent: dict[str, datetime] = {}
    yield ": decisions\n\n"
    while not await sleep(_EVERY_S, visit.console.stopping):
        if visit.console.access_of(visit.request) != visit.access:
            return  # the token was taken out of the file, or means something else now
        try:
            decisions, _ = await log.latest(_SHOWN, since=newest - _LATE, tenant=tenant)
        except RecordError:
            yield "event: away\ndata: the decision log cannot be read\n\n"
            continue
        new = [one for one in reversed(decisions) if one.id not in sent]
        sent |= {one.id: one.created_at for one in new}
        newest = min(datetime.now(UTC), max([newest, *(one.created_at for one in new)]))
        sent = {name: at for name, at in sent.items() if at >= newest - 2 * _LATE}
        row = visit.console.templates.get_template("decision_row.html")
        rows = [row.render(one=one) for one in new]
        yield "".join(f"data: {' '.join(html.split())}\n\n" for html in rows) or ": nothing new\n\n"


def _after(visit: Visit) -> datetime:
    now = datetime.now(UTC)
    try:
        given = datetime.fromisoformat(visit.form.text("after")).astimezone(UTC)
    except (ValueError, OverflowError):
        return now
    return max(now - timedelta(days=7), min(now, given))
