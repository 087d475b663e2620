"""Told times of memories that were stored before: found anew in their texts, and written to the record.

Nothing that a sender gave changes, so a memory keeps its version, and nothing is put in the outbox: what is built
from the record afterwards has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, LiteralString

from orion_recall.foreground import FOREGROUND
from orion_recall.memory.extraction.light import find_times
from orion_recall.postgres.pool import Pool, Row, borrow

_AT_ONCE = 500
# About five milliseconds of reading.
_AT_A_TIME = 8
_PAGE: LiteralString = """
SELECT seq, tenant, id, version, text, coalesce(occurred_at, mentioned_at) AS at, times
FROM memories WHERE live AND seq > $1 ORDER BY seq LIMIT $2
"""
_WRITE: LiteralString = "UPDATE memories SET times = $4 WHERE tenant = $1 AND id = $2 AND version = $3"


async def refresh_told_times(pool: Pool, advanced: Callable[[int], None] = lambda done: None) -> int:
    """Writes the told times of every live memory whose text tells others than the record has; how many.

    `advanced` is told how many were read. RecordError while Postgres is away; another run goes on.
    """
    after = read = changed = 0
    while True:
        async with borrow(pool, "reading told times") as connection:
            rows = await connection.fetch(_PAGE, after, _AT_ONCE)
        if not rows:
            return changed
        wanted = await asyncio.to_thread(_changed, rows)
        if wanted:
            async with borrow(pool, "writing told times") as connection:
                await connection.executemany(_WRITE, wanted)
        after, read, changed = rows[-1]["seq"], read + len(rows), changed + len(wanted)
        advanced(read)


def _changed(rows: Sequence[Row]) -> list[tuple[str, str, int, list[dict[str, Any]]]]:
    found: list[tuple[str, str, int, list[dict[str, Any]]]] = []
    for row in FOREGROUND.throttled(rows, _AT_A_TIME):
        at: datetime | None = row["at"]
        times = [asdict(one) for one in find_times(row["text"], None if at is None else at.timestamp())]
        if times != row["times"]:
            found.append((row["tenant"], row["id"], row["version"], times))
    return found
