"""What the keeper of a copy does when asked: compare it with the record, mend it, write it anew, swap it.

A worker has one of these beside each projector. A command that finds a copy without a worker does the same itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from orion_recall.errors import EngineError, ModelError, RecordError, SourceError
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.replicas.drift import Told, described, find_drift, mend, rewrite
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.replicas.requests import SIGN_EVERY_S, CopyRequest, CopyRequests, Task
from orion_recall.tasks import cancel
from orion_recall.values import JsonValue

log = logging.getLogger("orion_recall.memory")

_LOOK_EVERY_S = 1.0


async def do(task: Task, reader: RecordReader, projector: Projector, told: Told) -> dict[str, JsonValue]:
    """Does it, and says what was found; `left` is what a copy that was mended still has wrong.

    RecordError, SourceError, ModelError, EngineError when it cannot be done.
    """
    projection = projector.projection
    if task == "take":
        async with projector.writing:
            taken = await projector.take_beside()
        return {"taken": taken, "position": projection.position}
    if task == "rewrite":
        left = await rewrite(reader, projector, told)
        return await described(left, projection) | {"left": left.count}
    drift = await find_drift(reader, projection)
    found = await described(drift, projection)
    if task == "check" or not drift.count:
        return found
    await mend(reader, projector, drift, told)
    after = await find_drift(reader, projection)
    log.info("the %s was mended: %d memories differed from the record", projector.kind, drift.count)
    return found | {"left": after.count}


class CopyKeeper:
    """Answers what is asked of one copy: `run()` until cancelled."""

    def __init__(self, requests: CopyRequests, reader: RecordReader, projector: Projector) -> None:
        self._requests, self._reader, self._projector = requests, reader, projector

    async def run(self) -> None:
        """Look for requests; wait while the record is away."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            with contextlib.suppress(RecordError):
                await self.look()

    async def look(self) -> bool:
        """Whether there was a request; it is answered now. RecordError while Postgres is away."""
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
            async with self._signing(request, progress):
                result = await do(request.task, self._reader, projector, progress.tell)
        except (SourceError, ModelError, EngineError) as error:
            await self._requests.end(request, error=str(error))
        else:
            await self._requests.end(request, result=result)
        return True

    @contextlib.asynccontextmanager
    async def _signing(self, request: CopyRequest, progress: _Progress) -> AsyncGenerator[None]:
        """Signs of life while the block runs."""
        signing = asyncio.create_task(self._sign(request, progress))
        try:
            yield
        finally:
            await cancel(signing)

    async def _sign(self, request: CopyRequest, progress: _Progress) -> None:
        while True:
            with contextlib.suppress(RecordError):
                await self._requests.sign(request, progress.done, progress.total)
            await asyncio.sleep(SIGN_EVERY_S if not progress.total else _LOOK_EVERY_S)


@dataclass(slots=True)
class _Progress:
    done: int = 0
    total: int = 0

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
