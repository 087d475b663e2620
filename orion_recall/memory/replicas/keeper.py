"""Maintenance of a copy, on request and by itself: compare it with the record, repair it, swap in a rebuild.

A worker has one keeper for each projector. A command does the same itself for a copy that no worker has open. A
mapped file that was cut short can lose half of the memories, and the engine serves the rest as if nothing had
happened: so the writer of a copy compares it with the record by itself, too. Until it is repaired the answers are
degraded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from orion_recall.errors import EngineError, ModelError, RecordError, SourceError, TransientSourceError
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.replicas.drift import Drift, Progress, described, find_drift, repair, rewrite
from orion_recall.memory.replicas.maintenance import HEARTBEAT_EVERY_S, CopyRequest, CopyRequests, Task
from orion_recall.memory.replicas.projector import Projector
from orion_recall.tasks import cancel
from orion_recall.values import JsonValue

log = logging.getLogger("orion_recall.memory")

CHECK_EVERY_S = 6 * 3600.0
_CHECK_AGAIN_S = 60.0
_CHECK_AWAY_S = 5.0


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
        self._due_at = self._clock() + _CHECK_AGAIN_S  # also after an error
        try:
            drift = await find_drift(self._reader, projection)
            if drift.count:
                projection.damage = _told(drift)
                log.error("the %s differs from the record, and is repaired: %s", projector.kind, projection.damage)
                await repair(self._reader, projector, drift, lambda done, total: None)
                drift = await find_drift(self._reader, projection)
        except TransientSourceError as error:
            # A copy that is away for now fails its own searches. That is no damage: it is compared once it is back.
            self._due_at = self._clock() + _CHECK_AWAY_S
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


_POLL_S = 1.0


@runtime_checkable
class CompactedCopy(Protocol):
    """A copy in a folder, whose files can be written anew."""

    async def compact(self) -> tuple[int, list[str]]:
        """Writes its files anew, so that nothing that was deleted stays in them; nothing is applied meanwhile.

        How many unused builds were deleted with it, and the names of builds that another process is at.
        """
        ...


async def do(task: Task, reader: RecordReader, projector: Projector, progress: Progress) -> dict[str, JsonValue]:
    """Carries out the task; its result as JSON. `left` counts what still differs after a repair.

    RecordError, SourceError, ModelError, EngineError when it cannot be done.
    """
    projection = projector.projection
    if task == "take":
        async with projector.writing:
            taken = await projector.swap_in_rebuild()
        return {"taken": taken, "position": projection.position}
    if task == "compact":
        return await _compact(projector)
    if task == "rewrite":
        left = await rewrite(reader, projector, progress)
        return await described(left, projection) | {"left": left.count}
    drift = await find_drift(reader, projection)
    found = await described(drift, projection)
    if task == "check" or not drift.count:
        return found
    await repair(reader, projector, drift, progress)
    after = await find_drift(reader, projection)
    log.info("the %s was repaired: %d memories differed from the record", projector.kind, drift.count)
    return found | {"left": after.count}


async def _compact(projector: Projector) -> dict[str, JsonValue]:
    """Applies what is new, then rewrites the copy's files without what was deleted; a server's are its own."""
    projection = projector.projection
    async with projector.writing:
        position = await projector.catch_up()
        if not isinstance(projection, CompactedCopy):
            return {"compacted": False, "position": position, "builds": 0, "held": []}
        builds, held = await projection.compact()
    log.info("the files of the %s were written anew, without what was deleted", projector.kind)
    return {"compacted": True, "position": position, "builds": builds, "held": list(held)}


class CopyKeeper:
    """Answers the requests for one copy, and checks it: `run()` until cancelled."""

    def __init__(self, requests: CopyRequests, reader: RecordReader, projector: Projector) -> None:
        self._requests, self._reader, self._projector = requests, reader, projector
        self._self_check = SelfCheck(reader, projector)

    async def run(self) -> None:
        """Polls for requests; waits while the record is away."""
        while True:
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(RecordError):
                await self.poll()
                await self._self_check.run_if_due()

    async def poll(self) -> bool:
        """Answers the next request; whether there was one. RecordError while Postgres is away."""
        projector = self._projector
        if not projector.is_writer:
            return False
        request = await self._requests.claim(projector.copy, projector.kind)
        if request is None:
            return False
        if projector.error is not None:
            await self._requests.end(request, error=projector.error)
            return True
        progress = _Progress()
        try:
            async with self._heartbeats(request, progress):
                result = await do(request.task, self._reader, projector, progress.tell)
        except (SourceError, ModelError, EngineError) as error:
            await self._requests.end(request, error=str(error))
        else:
            await self._requests.end(request, result=result)
        return True

    @contextlib.asynccontextmanager
    async def _heartbeats(self, request: CopyRequest, progress: _Progress) -> AsyncGenerator[None]:
        beating = asyncio.create_task(self._beat(request, progress))
        try:
            yield
        finally:
            await cancel(beating)

    async def _beat(self, request: CopyRequest, progress: _Progress) -> None:
        while True:
            with contextlib.suppress(RecordError):
                await self._requests.heartbeat(request, progress.done, progress.total)
            await asyncio.sleep(HEARTBEAT_EVERY_S if not progress.total else _POLL_S)


@dataclass(slots=True)
class _Progress:
    done: int = 0
    total: int = 0

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
