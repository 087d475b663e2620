"""Imports a file over the bus: several batches in flight, acknowledged in order; a stopped import resumes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orion_recall.contracts import MemoryReceiptV1
from orion_recall.errors import ClientError
from orion_recall.memory.record.record import CopyPosition
from orion_recall.memory.transfer.import_file import (
    ImportBatch,
    ImportPosition,
    ImportProgress,
    ImportSummary,
    read_batches,
)
from orion_recall.memory.transfer.import_mapping import ImportMapping
from orion_recall.tasks import cancel

IN_FLIGHT = 4
# A lagging copy that has not moved for so long is not waited for any longer.
STALLED_S = 15.0
_LOOK_EVERY_S = 0.1
_KINDS = frozenset(("index", "graph"))


class StoringClient(Protocol):
    """Sends memories and returns receipts: a RecallClient."""

    async def store(self, memories: Sequence[Mapping[str, Any]]) -> MemoryReceiptV1: ...


class Copies(Protocol):
    """The positions of the copies: the record."""

    async def copies(self) -> list[CopyPosition]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import.

    `position` is the outbox position at which all of it is in index and graph (None: nothing was stored), and
    `began` where in the file this run began: after the last acknowledged batch of an earlier one.
    """

    summary: ImportSummary
    position: int | None
    began: ImportPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Result of a wait for the copies: those that are `lagging`, before the position.

    `gone` are lagging copies without heartbeats, and `missing` the kinds without any copy that has heartbeats.
    """

    position: int
    lagging: tuple[CopyPosition, ...] = ()
    gone: tuple[CopyPosition, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def caught_up(self) -> bool:
        return not self.lagging and not self.missing


async def import_file(
    client: StoringClient,
    path: Path,
    mapping: ImportMapping | None = None,
    *,
    progress: ImportProgress | None = None,
    advanced: Callable[[ImportPosition, ImportSummary], None] | None = None,
    batch_size: int = 200,
    called: str | None = None,
) -> Imported:
    """Stores every memory of a JSON-lines file; done when all of it is acknowledged.

    With `progress` a run that was stopped is gone on with. `advanced` is told after each batch. Batches travel
    side by side: of two lines with one id and other content, either may be the one that is kept. `called` is what
    the file is called in what is said of it.
    ImportFileError: the file cannot be read. ReplyTimeout, BusUnavailable, ClientError (the worker stores
    nothing): run it again, and it goes on.
    """
    began = progress.position if progress is not None else ImportPosition()
    summary = ImportSummary(file=called or str(path))
    run = _Run(client, summary, progress, advanced)
    batches = read_batches(path, mapping or ImportMapping(), start=began, batch_size=batch_size, called=called)
    try:
        # Reading and checking a batch takes a while: not on the loop.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await run.send(batch)
        await run.settle(0)
    except BaseException:
        await run.abandon()
        raise
    if progress is not None:
        progress.finish()
    return Imported(summary=summary, position=run.position, began=began)


class _Run:
    """The batches that are under way, oldest first."""

    def __init__(
        self,
        client: StoringClient,
        summary: ImportSummary,
        progress: ImportProgress | None,
        advanced: Callable[[ImportPosition, ImportSummary], None] | None,
    ) -> None:
        self.position: int | None = None
        self._client, self._summary, self._progress, self._advanced = client, summary, progress, advanced
        self._under_way: deque[tuple[ImportBatch, asyncio.Task[MemoryReceiptV1 | None]]] = deque()

    async def send(self, batch: ImportBatch) -> None:
        await self.settle(IN_FLIGHT - 1)
        self._under_way.append((batch, asyncio.create_task(self._store(batch))))

    async def settle(self, left: int) -> None:
        """Waits for receipts, in order, until at most `left` batches are under way."""
        while len(self._under_way) > left:
            batch, storing = self._under_way[0]
            receipt = await storing
            self._under_way.popleft()
            self._summary.add(batch, receipt)
            if receipt is not None and receipt.position is not None:
                self.position = max(self.position or 0, receipt.position)
            if self._progress is not None:
                await asyncio.to_thread(self._progress.acknowledge, batch.end)
            if self._advanced is not None:
                self._advanced(batch.end, self._summary)

    async def abandon(self) -> None:
        """Stops waiting for what is under way; nothing of it is acknowledged."""
        await cancel(*(storing for _, storing in self._under_way))

    async def _store(self, batch: ImportBatch) -> MemoryReceiptV1 | None:
        if not batch.memories:
            return None
        receipt = await self._client.store(batch.memories)
        if receipt.error is not None:
            raise ClientError(f"the lines up to {batch.end.line} were not stored: {receipt.error.message}")
        return receipt


async def wait_for_copies(
    record: Copies,
    position: int,
    *,
    stalled_s: float = STALLED_S,
    advanced: Callable[[Sequence[CopyPosition]], None] | None = None,
) -> Waited:
    """Waits until every copy with heartbeats, at least one index and one graph, is at `position`.

    Copies that are gone are not waited for. Ends when all is there, or nothing has moved for `stalled_s`.
    RecordError: Postgres is away.
    """
    last: dict[tuple[str, str], int] = {}
    moved_at = time.monotonic()
    while True:
        copies = await record.copies()
        kept = [copy for copy in copies if not copy.is_gone]
        if advanced is not None:
            advanced(kept)
        waited = Waited(
            position=position,
            lagging=tuple(copy for copy in kept if copy.position < position),
            gone=tuple(copy for copy in copies if copy.is_gone and copy.position < position),
            missing=tuple(sorted(_KINDS - {copy.kind for copy in kept})),
        )
        # Not by heartbeats: a copy that cannot move has those, too.
        now_at = {(copy.copy, copy.kind): copy.position for copy in kept}
        if now_at != last:
            last, moved_at = now_at, time.monotonic()
        if waited.caught_up or time.monotonic() - moved_at > stalled_s:
            return waited
        await asyncio.sleep(_LOOK_EVERY_S)
