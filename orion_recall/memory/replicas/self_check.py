"""A copy compares itself with the record, says what is wrong with it, and repairs itself.

A mapped file that was cut short can lose half of the memories, and the engine serves the rest as if nothing had
happened. So the writer of a copy compares the versions of all memories with those of the record: once it has caught
up, after each rebuild, and at intervals. What differs is written again from the record. Until that is done the hits
of the copy count, and the answers are degraded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from orion_recall.errors import EngineError, ModelError, SourceError, TransientSourceError
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.replicas.drift import Drift, find_drift, repair
from orion_recall.memory.replicas.projector import Projector

log = logging.getLogger("orion_recall.memory")

CHECK_EVERY_S = 6 * 3600.0
_AGAIN_S = 60.0
_AWAY_S = 5.0


class SelfCheck:
    """The comparisons of one copy; `run_if_due()` may be called often."""

    def __init__(
        self,
        reader: RecordReader,
        projector: Projector,
        *,
        every_s: float = CHECK_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader, self._projector, self._every_s, self._clock = reader, projector, every_s, clock
        self._due_at = 0.0
        self._rebuilds = projector.rebuilds

    async def run_if_due(self) -> bool:
        """Compares, and repairs what differs, if it is time and the copy has caught up; whether it did.

        RecordError while Postgres is away: it is due again.
        """
        projector = self._projector
        if projector.error is not None or projector.lag != 0 or not projector.is_writer:
            return False
        if self._clock() < self._due_at and self._rebuilds == projector.rebuilds:
            return False
        self._rebuilds = projector.rebuilds
        projection = projector.projection
        self._due_at = self._clock() + _AGAIN_S  # also after an error
        try:
            drift = await find_drift(self._reader, projection)
            if drift.count:
                projection.damage = _told(drift)
                log.error("the %s differs from the record, and is repaired: %s", projector.kind, projection.damage)
                await repair(self._reader, projector, drift, lambda done, total: None)
                drift = await find_drift(self._reader, projection)
        except TransientSourceError as error:
            # A copy that is away for now fails its own searches. That is no damage: it is compared once it is back.
            self._due_at = self._clock() + _AWAY_S
            log.warning("the %s is compared with the record later: %s", projector.kind, error)
            return False
        except (SourceError, ModelError, EngineError) as error:
            projection.damage = f"it cannot be compared with the record: {error}"
            log.error("the %s cannot be compared with the record: %s", projector.kind, error)  # noqa: TRY400
            return True
        if drift.count:
            projection.damage = _told(drift)
            log.error("the %s differs from the record after its repair: %s", projector.kind, projection.damage)
            return True
        if projection.damage is not None:
            log.info("the %s is as the record again", projector.kind)
        projection.damage = None
        self._due_at = self._clock() + self._every_s
        return True


def _told(drift: Drift) -> str:
    """What differs, as counts: no id of a memory goes into a reply."""
    parts = ((len(drift.missing), "missing"), (len(drift.stale), "of another version"), (drift.extra, "too many"))
    counts = ", ".join(f"{count} {what}" for count, what in parts if count)
    return f"of {drift.held + len(drift.missing)} memories {counts}"
