"""Deletes request receipts after a week, or their tenant's days; a request repeated later is carried out again."""

from __future__ import annotations

import asyncio
import logging
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.periods import OF_TENANT, Period, Periods
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost

log = logging.getLogger("orion_recall.memory")

KEPT_DAYS = 7
_EVERY_S = 600.0
_BATCH_ROWS, _PAUSE_S = 1000, 0.2
# The lock that one worker at a time holds while it deletes a batch. Rows are not locked one by one: that asks for
# the right to update them, which a worker has not.
_LOCK: LiteralString = "SELECT try_write_lock('requests', 7402116892)"
# By the clock of the database, which wrote the times.
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
        SELECT tenant, idempotency_key FROM memory_requests
        WHERE at < now() - make_interval(days => $1) AND {OF_TENANT}
        ORDER BY at LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM gone
"""  # noqa: S608 (of constants)


class RequestRetention:
    """Deletes receipts older than their tenants' days: `run()` until cancelled. Every worker may run one."""

    def __init__(
        self,
        pool: Pool,
        periods: Periods = Periods(days=KEPT_DAYS),  # noqa: B008 (it is frozen)
        *,
        every_s: float = _EVERY_S,
        batch_rows: int = _BATCH_ROWS,
    ) -> None:
        self._pool, self._periods, self._every_s, self._batch_rows = pool, periods, every_s, batch_rows

    async def run(self) -> None:
        """Deletes every ten minutes, with a pause between batches."""
        while True:
            try:
                for period in self._periods.each:
                    await self._round(period)
            except RecordError as error:
                if not is_connection_lost(error):
                    log.error("old request receipts cannot be deleted: %s; it is tried again in ten minutes", error)  # noqa: TRY400 (the text says it all)
            await asyncio.sleep(self._every_s)

    async def _round(self, period: Period) -> None:
        while True:
            if await self._batch(period) < self._batch_rows:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _batch(self, period: Period) -> int:
        """How many went; 0 when another worker is at it."""
        async with borrow(self._pool, "deleting answers to old requests") as connection, connection.transaction():
            if not await connection.fetchval(_LOCK):
                return 0
            return int(await connection.fetchval(_DELETE, period.days, self._batch_rows, period.tenant, period.but))
