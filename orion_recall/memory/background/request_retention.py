"""Deletes request receipts after seven days; a request repeated later is carried out again."""

from __future__ import annotations

import asyncio
import logging
from typing import LiteralString

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Pool, borrow, is_connection_lost

log = logging.getLogger("orion_recall.memory")

KEPT_DAYS = 7
_EVERY_S = 600.0
_BATCH_ROWS, _PAUSE_S = 1000, 0.2
# Any fixed number: it is the name of the lock that one worker at a time holds while it deletes a batch. Rows are
# not locked one by one: that asks for the right to update them, which a worker has not.
_LOCK: LiteralString = "SELECT pg_try_advisory_xact_lock(7402116892)"
# By the clock of the database, which wrote the times.
_DELETE: LiteralString = """
WITH gone AS (
    DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
        SELECT tenant, idempotency_key FROM memory_requests WHERE at < now() - make_interval(days => $1)
        ORDER BY at LIMIT $2
    ) RETURNING 1
)
SELECT count(*) FROM gone
"""


class RequestRetention:
    """Deletes receipts older than a week: `run()` until cancelled. Every worker may run one."""

    def __init__(self, pool: Pool, *, every_s: float = _EVERY_S, batch_rows: int = _BATCH_ROWS) -> None:
        self._pool, self._every_s, self._batch_rows = pool, every_s, batch_rows

    async def run(self) -> None:
        """Deletes every ten minutes, with a pause between batches."""
        while True:
            try:
                await self._round()
            except RecordError as error:
                if not is_connection_lost(error):
                    log.error("old request receipts cannot be deleted: %s; it is tried again in ten minutes", error)  # noqa: TRY400 (the text says it all)
            await asyncio.sleep(self._every_s)

    async def _round(self) -> None:
        while True:
            if await self._batch() < self._batch_rows:
                return
            await asyncio.sleep(_PAUSE_S)

    async def _batch(self) -> int:
        """How many went; 0 when another worker is at it."""
        async with borrow(self._pool, "deleting answers to old requests") as connection, connection.transaction():
            if not await connection.fetchval(_LOCK):
                return 0
            return int(await connection.fetchval(_DELETE, KEPT_DAYS, self._batch_rows))
