"""Background work of workers, waited for before anything is timed: what was waited for, and how long.

A worker that has just taken an import goes on working: copies follow the outbox, extraction looks at new memories,
decisions are written, the index is optimised, housekeeping runs. A recall that is timed meanwhile pays for it, and
in a comparison the other worker's recalls pay as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from orion_recall.postgres.pool import Connection, close_connection, open_connection
from tests.bench.command import say
from tests.bench.measure import tree_cpu_s
from tests.bench.running_worker import RunningWorker

_LONGEST_S, _LOOK_S = 300.0, 4.0
# An idle worker looks at bus and record a few times a second: some hundredths of a core.
_IDLE_SHARE = 0.08
# Of the record of any revision: a table that one does not have holds no work of it.
_LEFT = (
    (
        "index and graph at the end of the outbox",
        "projections",
        "SELECT greatest(0, (SELECT coalesce(max(position), 0) FROM outbox) - min(position)) FROM projections "
        "WHERE updated_at > now() - interval '1 minute'",
    ),
    ("background extraction", "memory_extractions", "SELECT count(*) FROM memory_extractions"),
)
_REST = "the processor at rest (index optimised, housekeeping done)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """One thing that was waited for: the seconds it took, and whether it ended."""

    what: str
    seconds: float
    ended: bool

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.seconds:.1f} s{'' if self.ended else ', and it goes on: the figures pay for it'}"
        )


async def settled(
    workers: Sequence[RunningWorker], *, longest_s: float = _LONGEST_S, look_s: float = _LOOK_S
) -> list[Waited]:
    """Waits until no worker has background work left; everything is told on standard error, too."""
    say("background work is waited for")
    until = time.monotonic() + longest_s
    found = [await _until(what, partial(_none_left, workers, table, sql), until) for what, table, sql in _LEFT]

    async def at_rest() -> bool:
        before = sum(tree_cpu_s(one.worker_pid) for one in workers)
        await asyncio.sleep(look_s)
        used = sum(tree_cpu_s(one.worker_pid) for one in workers) - before
        return used < _IDLE_SHARE * look_s * len(workers)

    found.append(await _until(_REST, at_rest, until))
    for one in found:
        say(str(one))
    return found


async def _until(what: str, holds: Callable[[], Awaitable[bool]], until: float) -> Waited:
    began = time.monotonic()
    while not (ended := await holds()) and time.monotonic() < until:
        await asyncio.sleep(0.2)
    return Waited(what=what, seconds=time.monotonic() - began, ended=ended)


async def _none_left(workers: Sequence[RunningWorker], table: str, sql: str) -> bool:
    return not any([await _left(one.engines.postgres_dsn, table, sql) for one in workers])


async def _left(dsn: str, table: str, sql: str) -> int:
    connection: Connection = await open_connection(dsn, name="bench", statement_timeout_ms=30_000)
    try:
        is_there = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
        return int(await connection.fetchval(sql) or 0) if is_there else 0
    finally:
        await close_connection(connection)
