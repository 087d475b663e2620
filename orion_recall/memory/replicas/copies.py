"""Positions of the copies: those that this worker searches, and all that are registered in the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import GONE_AFTER_S
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.text.normal import memory_key, number_of

# A copy without heartbeats belongs to a worker that is gone. Such a worker reads what was changed before it serves.
_REGISTERED: LiteralString = """
SELECT kind, copy, position FROM projections WHERE updated_at > now() - make_interval(secs => $1)
"""

# Memories in the outbox after a position that were changed since they were stored. A copy at 0 holds the first page
# at most: its worker ended before it could report.
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


async def registered_positions(pool: Pool) -> dict[int, int]:
    """The position of every registered copy that has heartbeats, by `copy_number`. RecordError."""
    async with borrow(pool, "reading positions") as connection:
        rows = await connection.fetch(_REGISTERED, GONE_AFTER_S)
    return {copy_number(row["kind"], row["copy"]): row["position"] for row in rows}


def copy_number(kind: str, copy: str) -> int:
    """The number of a copy in messages between workers: its name may hold an address or a folder."""
    return number_of(kind, copy)


async def changed_after(pool: Pool, position: int) -> dict[int, int]:
    """Memories updated, superseded or deleted after a position: key and last position. RecordError."""
    async with borrow(pool, "reading what was changed") as connection:
        if not await connection.fetchval(_KNOWS_CHANGES):
            return {}
        rows = await connection.fetch(_CHANGED_SINCE, position)
    return {memory_key(row["tenant"], row["memory_id"]): row["position"] for row in rows}


@dataclass(slots=True)
class _SharedPosition:
    """Position of a copy that others write: the highest seen by any worker since this process saw it go back."""

    reached: int = 0
    _own: int = 0

    def observe(self, position: int) -> None:
        """A position that this process read itself. A copy goes back only when it has lost data."""
        self.reached = position if position < self._own else max(self.reached, position)
        self._own = position


class OwnCopies:
    """The positions of the copies that this worker searches."""

    def __init__(self, projections: Sequence[Projection]) -> None:
        self._own = [part for part in projections if not part.shared]
        # A shared copy is written by one worker, and the others see it move once a second.
        self._shared = {
            copy_number(part.kind, part.copy or ""): (part, _SharedPosition())
            for part in projections
            if part.shared
        }

    @property
    def are_shared(self) -> bool:
        """Whether other workers may write to one of them."""
        return bool(self._shared)

    def applied_position(self) -> float:
        """The position up to which all of them are applied; infinity for a worker without copies."""
        for part, shared in self._shared.values():
            shared.observe(part.position)
        positions = [part.position for part in self._own]
        positions += [shared.reached for _, shared in self._shared.values()]
        return min(positions, default=math.inf)

    def positions(self) -> dict[str, int]:
        """The position of each of them by its kind, as `applied_position` found it last for those of others."""
        found = {part.kind: part.position for part in self._own}
        for part, shared in self._shared.values():
            found[part.kind] = shared.reached
        return found

    def reached(self, positions: Mapping[int, int]) -> None:
        """Takes positions that others read, by copy number; a copy of this worker alone needs none."""
        self.applied_position()
        for number, (_, shared) in self._shared.items():
            shared.reached = max(shared.reached, positions.get(number, 0))
