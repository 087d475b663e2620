"""Retention of decisions: deletes old ones in bounded batches, so that writers do not wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.periods import OF_TENANT, Period, Periods
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost

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
    ) RETURNING created_at
)
SELECT count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest FROM gone
"""  # noqa: S608 (of constants)
_COUNT: LiteralString = """
SELECT count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest
FROM recall_decisions WHERE created_at < $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """How many decisions were deleted, and between which times."""

    count: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    def and_then(self, later: Deleted) -> Deleted:
        """Both together; what was deleted later is newer."""
        return Deleted(
            count=self.count + later.count, oldest=self.oldest or later.oldest, newest=later.newest or self.newest
        )


async def count_older(pool: Pool, before: datetime) -> Deleted:
    """What `purge_older` would delete; RecordError when Postgres is away."""
    async with borrow(pool, "counting old decisions") as connection:
        (row,) = await connection.fetch(_COUNT, before)
    return Deleted(**dict(row.items()))


async def purge_older(pool: Pool, before: datetime, *, batch_rows: int = BATCH_ROWS) -> Deleted:
    """Delete every decision from before the time, batch by batch; gives what was deleted.

    RecordError when Postgres is away: earlier batches stay deleted, and the purge may be called again.
    """
    total = Deleted()
    async for batch in _batches(pool, (before, batch_rows, None, ()), lock=_LOCK):
        total = total.and_then(batch)
    return total


async def _batches(
    pool: Pool, given: tuple[datetime, int, str | None, Sequence[str]], *, lock: LiteralString, pause_s: float = 0.0
) -> AsyncGenerator[Deleted]:
    """Every batch that was deleted, until none is left or another one is deleting."""
    while True:
        async with borrow(pool, "deleting old decisions") as connection, connection.transaction():
            # Held to the end of the transaction, which also works behind a transaction pooler.
            if await connection.fetchval(lock) is False:
                return
            (row,) = await connection.fetch(_DELETE, *given)
        yield (batch := Deleted(**dict(row.items())))
        if batch.count < given[1]:
            return
        await asyncio.sleep(pause_s)


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
        given = (datetime.now(UTC) - timedelta(days=period.days), self._batch_rows, period.tenant, period.but)
        total = Deleted()
        try:
            async for batch in _batches(self._pool, given, lock=_TRY_LOCK, pause_s=self._pause_s):
                total = total.and_then(batch)
        finally:
            self.deleted += total.count
            if total.count:
                log.info(
                    "%d decisions older than %d days are deleted, up to %s", total.count, period.days, total.newest
                )
