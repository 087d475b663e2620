"""The copies of the record and what they may still hold: what this worker searches, and what others do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import GONE_AFTER_S
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.text.normal import memory_key, number_of

# A copy that gives no sign of life belongs to a worker that is gone. When that one comes back it learns what was
# changed before it serves.
_KEPT: LiteralString = """
SELECT kind, copy, position FROM projections WHERE updated_at > now() - make_interval(secs => $1)
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


async def kept_positions(pool: Pool) -> dict[int, int]:
    """How far every registered copy has come that is still kept, by `copy_number`. RecordError."""
    async with borrow(pool, "reading positions") as connection:
        rows = await connection.fetch(_KEPT, GONE_AFTER_S)
    return {copy_number(row["kind"], row["copy"]): row["position"] for row in rows}


def copy_number(kind: str, copy: str) -> int:
    """The number that workers call a copy by: its name may be an address or a folder."""
    return number_of(kind, copy)


async def changed_since(pool: Pool, position: int) -> dict[int, int]:
    """The memories changed, replaced or deleted behind a position: number and last position. RecordError."""
    async with borrow(pool, "reading what was changed") as connection:
        if not await connection.fetchval(_KNOWS_CHANGES):
            return {}
        rows = await connection.fetch(_CHANGED_SINCE, position)
    return {memory_key(row["tenant"], row["memory_id"]): row["position"] for row in rows}


@dataclass(slots=True)
class _Course:
    """How far a copy has come that others write: as far as anybody saw it, since this process saw it go back."""

    reached: int = 0
    _own: int = 0

    def saw(self, position: int) -> None:
        """What this process saw itself. A copy only goes back when it has lost something."""
        self.reached = position if position < self._own else max(self.reached, position)
        self._own = position


class OwnCopies:
    """How far the copies that this worker searches have come."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._own = [part for part in projections if not part.shared]
        # A shared copy is written by one worker, and the others see it move once a second.
        self._shared = {
            copy_number(part.kind, part.copy or ""): (part, _Course()) for part in projections if part.shared
        }

    @property
    def are_shared(self) -> bool:
        """Whether others may write to one of them."""
        return bool(self._shared)

    def floor(self) -> float:
        """What all of them have; infinity for a worker that has none."""
        for part, course in self._shared.values():
            course.saw(part.position)
        positions = [part.position for part in self._own]
        positions += [course.reached for _, course in self._shared.values()]
        return min(positions, default=math.inf)

    def reached(self, positions: Mapping[int, int]) -> None:
        """What is known of copies, by their numbers; those that are not shared know it better themselves."""
        self.floor()
        for number, (_, course) in self._shared.items():
            course.reached = max(course.reached, positions.get(number, 0))
