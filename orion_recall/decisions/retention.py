"""Retention of decisions: deletes old ones in bounded batches, so that writers do not wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.periods import OF_TENANT, Period, Periods
from orion_recall.postgres.pool import Pool, Row, borrow, is_connection_lost

log = logging.getLogger("orion_recall.decisions")

BATCH_ROWS = 1000
EVERY_S = 600.0
_PAUSE_S = 0.2
# The lock that one purge at a time holds while it deletes a batch. Row locks on the decisions would need the right
# to update them, which a worker does not have.
_TRY_LOCK: LiteralString = "SELECT try_write_lock('decisions')"
_LOCK: LiteralString = "SELECT take_write_lock('decisions')"

# Oldest first by the index on created_at.
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM recall_decisions WHERE id IN (
        SELECT id FROM recall_decisions WHERE created_at < $1 AND {OF_TENANT}
        ORDER BY created_at LIMIT $2
    ) RETURNING profile, outcome, created_at
)
SELECT profile, outcome, count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest
FROM gone GROUP BY profile, outcome ORDER BY profile, outcome
"""  # noqa: S608 (of constants)
_COUNT: LiteralString = """
SELECT profile, outcome, count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest
FROM recall_decisions WHERE created_at < $1 GROUP BY profile, outcome ORDER BY profile, outcome
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Deleted decisions of one profile and outcome: how many, and between which times."""

    profile: str
    outcome: str
    count: int
    oldest: datetime
    newest: datetime


async def count_older(pool: Pool, before: datetime) -> list[Deleted]:
    """What `purge_older` would delete; RecordError when Postgres is away."""
    async with borrow(pool, "counting old decisions") as connection:
        return _deleted(await connection.fetch(_COUNT, before))


async def purge_older(pool: Pool, before: datetime, *, batch_rows: int = BATCH_ROWS) -> list[Deleted]:
    """Delete every decision from before the time, batch by batch; gives what was deleted.

    RecordError when Postgres is away: earlier batches stay deleted, and the purge may be called again.
    """
    total: list[Deleted] = []
    while True:
        async with borrow(pool, "deleting old decisions") as connection, connection.transaction():
            await connection.execute(_LOCK)
            batch = _deleted(await connection.fetch(_DELETE, before, batch_rows, None, ()))
        total = merged([*total, *batch])
        if sum(part.count for part in batch) < batch_rows:
            return total


def merged(parts: Sequence[Deleted]) -> list[Deleted]:
    total: dict[tuple[str, str], Deleted] = {}
    for part in parts:
        held = total.get((part.profile, part.outcome), part)
        total[part.profile, part.outcome] = Deleted(
            profile=part.profile,
            outcome=part.outcome,
            count=part.count if held is part else held.count + part.count,
            oldest=min(held.oldest, part.oldest),
            newest=max(held.newest, part.newest),
        )
    return [total[key] for key in sorted(total)]


class Retention:
    """Deletes decisions that are older than their tenants' days: `run()` it until cancelled.

    Every worker may run one: while one deletes a batch, the others skip theirs.
    """

    def __init__(
        self,
        pool: Pool,
        periods: Periods,
        *,
        every_s: float = EVERY_S,
        batch_rows: int = BATCH_ROWS,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self.deleted = 0
        self._pool, self._periods = pool, periods
        self._every_s, self._batch_rows, self._pause_s = every_s, batch_rows, pause_s

    async def run(self) -> None:
        """Delete every ten minutes, with pauses between batches, so that writes are not held up."""
        while True:
            try:
                for period in self._periods.each:
                    await self._round(period)
            except RecordError as error:
                if not is_connection_lost(error):
                    log.error("old decisions are not deleted: %s", error)  # noqa: TRY400 (the text says it all)
            await asyncio.sleep(self._every_s)

    async def _round(self, period: Period) -> None:
        before = datetime.now(UTC) - timedelta(days=period.days)
        total: list[Deleted] = []
        try:
            while (batch := await self._batch(before, period)) is not None:
                total = merged([*total, *batch])
                if sum(part.count for part in batch) < self._batch_rows:
                    break
                await asyncio.sleep(self._pause_s)
        finally:
            deleted = sum(part.count for part in total)
            self.deleted += deleted
            if deleted:
                newest = max(part.newest for part in total)
                log.info("%d decisions older than %d days are deleted, up to %s", deleted, period.days, newest)

    async def _batch(self, before: datetime, period: Period) -> list[Deleted] | None:
        """What was deleted; None when another worker is deleting."""
        async with borrow(self._pool, "deleting old decisions") as connection, connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            if not await connection.fetchval(_TRY_LOCK):
                return None
            given = (before, self._batch_rows, period.tenant, period.but)
            return _deleted(await connection.fetch(_DELETE, *given))


def _deleted(rows: Sequence[Row]) -> list[Deleted]:
    return [Deleted(**dict(row.items())) for row in rows]
