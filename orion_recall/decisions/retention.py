"""Old decisions: which they are, counted and purged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from orion_recall.postgres.periods import BATCH_ROWS, OF_TENANT, OldRows, deleted_batches
from orion_recall.postgres.pool import Pool, borrow

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
OLD_DECISIONS = OldRows(
    what="decisions", lock="decisions", delete=_DELETE, log=logging.getLogger("orion_recall.decisions")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """How many decisions were deleted, and between which times."""

    count: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None


async def count_older(pool: Pool, before: datetime) -> Deleted:
    """What `purge_older` would delete; RecordError when Postgres is away."""
    async with borrow(pool, "counting old decisions") as connection:
        (row,) = await connection.fetch(_COUNT, before)
    return Deleted(**dict(row.items()))


async def purge_older(pool: Pool, before: datetime, *, batch_rows: int = BATCH_ROWS) -> Deleted:
    """Delete every decision from before the time, batch by batch; gives what was deleted.

    RecordError when Postgres is away: earlier batches stay deleted, and the purge may be called again.
    """
    batches = deleted_batches(pool, OLD_DECISIONS, before, batch_rows=batch_rows)
    found = [batch async for batch in batches if batch["count"]]
    if not found:
        return Deleted()
    count = sum(batch["count"] for batch in found)
    return Deleted(count=count, oldest=found[0]["oldest"], newest=found[-1]["newest"])
