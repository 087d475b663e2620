"""The copies of the record and what they may still hold: what this worker searches, and what others do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import LiteralString

from orion_recall.memory.record import GONE_AFTER_S, Record
from orion_recall.postgres import Pool, borrow
from orion_recall.sources.source import Projection
from orion_recall.text import memory_key

# A copy that gives no sign of life belongs to a worker that is gone. When that one comes back it learns what was
# changed before it serves.
_BEHIND: LiteralString = """
SELECT count(*) FROM projections p WHERE p.position < $1 AND p.updated_at > now() - make_interval(secs => $2)
"""

# The memories told of behind a position that are not what they were when they were stored. A copy at 0 holds at
# most what it was told first: it was ended before it could say so.
_CHANGED_SINCE: LiteralString = """
SELECT o.tenant, o.memory_id, max(o.position) AS position
FROM outbox o JOIN memories m ON m.tenant = o.tenant AND m.id = o.memory_id
WHERE o.position > $1 AND (m.version > 1 OR NOT m.live)
    AND ($1 > 0 OR o.position <= (SELECT max(f.position) FROM (
        SELECT position FROM outbox ORDER BY position LIMIT 200) AS f))
GROUP BY o.tenant, o.memory_id
"""


# A schema that is older, or not there yet, knows of no change.
_KNOWS_CHANGES: LiteralString = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('memories') AND attname = 'live')
"""


async def copies_behind(pool: Pool, position: int) -> int:
    """How many registered copies that are still kept have not reached the position. RecordError."""
    async with borrow(pool, "reading positions") as connection:
        return int(await connection.fetchval(_BEHIND, position, GONE_AFTER_S))


async def changed_since(pool: Pool, position: int) -> dict[int, int]:
    """The memories changed, replaced or deleted behind a position: number and last position. RecordError."""
    async with borrow(pool, "reading what was changed") as connection:
        if not await connection.fetchval(_KNOWS_CHANGES):
            return {}
        rows = await connection.fetch(_CHANGED_SINCE, position)
    return {memory_key(row["tenant"], row["memory_id"]): row["position"] for row in rows}


class OwnCopies:
    """How far the copies that this worker searches have come."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._projections = projections
        # A shared copy is written by one worker: the others are told by the record.
        self._reported: dict[tuple[str | None, str], int] = {}

    @property
    def are_shared(self) -> bool:
        """Whether others may write to one of them."""
        return any(part.shared for part in self._projections)

    def floor(self) -> float:
        """What all of them have; infinity for a worker that has none."""
        return min((self._position(part) for part in self._projections), default=math.inf)

    async def look(self, record: Record) -> None:
        """Ask the record how far those are that others write. RecordError."""
        self._reported = {(one.copy, one.kind): one.position for one in await record.copies()}

    def _position(self, part: Projection) -> int:
        return self._reported.get((part.copy, part.kind), part.position) if part.shared else part.position
