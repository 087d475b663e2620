"""Background recognition of successions: what was stored or changed is compared with older memories."""

from __future__ import annotations

import asyncio
import logging

from orion_recall.errors import ModelError, OrionError, RecordError, SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.successions import DueSteps, Successions, WrittenEdge
from orion_recall.memory.succession.near import IndexNeighbours
from orion_recall.tasks import POSTGRES_S, Backoff, outcomes, sleep

log = logging.getLogger("orion_recall.memory")

_AT_ONCE = 50
_POLL_S = 1.0
# Nobody waits for a succession, and each costs what a recall costs: it waits for a gap between recalls.
_LONGEST_PAUSE_S = 2.0


class SuccessionRecognition:
    """Compares new memories with those that the index holds: `run()` until cancelled, in any worker.

    It waits until the index has come to the head of the outbox. Several workers do no harm: the first one writes.
    """

    def __init__(
        self,
        record: Record,
        successions: Successions,
        neighbours: IndexNeighbours,
        index: Projection,
        *,
        look_every_s: float = _POLL_S,
    ) -> None:
        self.error: str | None = None
        self.found = 0
        self._record, self._successions, self._neighbours, self._index = record, successions, neighbours, index
        self._look_every_s = look_every_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something was stored."""
        self._wake.set()

    async def run(self) -> None:
        """Looks at what is due; waits while the record, the index or the model is away."""
        backoff = Backoff(*POSTGRES_S)
        while True:
            self._wake.clear()
            try:
                looked = await self.step()
                self.error = None
                backoff.reset()
            except (RecordError, SourceError, ModelError) as error:
                if self.error is None:
                    log.warning("the recognition of successions waits: %s", error)
                self.error = str(error)
                await backoff.wait()
                continue
            if not looked:
                await sleep(self._look_every_s, self._wake)

    async def step(self) -> bool:
        """Looks at the next steps of the history; whether there were any that it could look at."""
        due = await self._successions.due(_AT_ONCE)
        if due is None or self._index.position < await self._record.head():
            return False
        found = await self._compared(due)
        if await self._successions.finish(due, found):
            self.found += len(found)
        return True

    async def _compared(self, due: DueSteps) -> list[WrittenEdge]:
        found: list[WrittenEdge] = []
        for memory in due.memories:
            what = f"what memory {memory.id!r} succeeds is not recognised"
            (edges,) = await outcomes(what, self._neighbours.successions(memory))
            if isinstance(edges, OrionError):
                raise edges
            if isinstance(edges, Exception):  # logged: a text that the rules fail on stops no other memory
                continue
            found += [WrittenEdge(memory.tenant, one.new, one.old, one.confidence, one.reason) for one in edges]
            await FOREGROUND.pause(_LONGEST_PAUSE_S)
        return found
