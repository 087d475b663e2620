"""Imports a file over the bus, several batches in flight, and waits until index and graph have it."""

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
from orion_recall.memory.transfer.import_file import ImportBatch, ImportMapping, ImportSummary, read_batches
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
    advanced: Callable[[ImportSummary], None] = lambda summary: None,
    batch_size: int = 200,
    called: str | None = None,
) -> ImportSummary:
    """Stores every memory of a file; done when all of it is acknowledged. `advanced` is called after each batch.

    Batches travel side by side: of two lines with one id and other content, either may be the one that is kept.
    `called` is the file's name in messages. ImportFileError: the file cannot be read. ReplyTimeout, BusUnavailable,
    ClientError (the worker stores nothing): run it again; what is stored already is unchanged.
    """
    summary = ImportSummary(file=called or str(path))
    batches = read_batches(path, mapping or ImportMapping(), batch_size=batch_size, called=called)
    in_flight: deque[tuple[ImportBatch, asyncio.Task[MemoryReceiptV1 | None]]] = deque()

    async def settle(left: int) -> None:
        while len(in_flight) > left:
            batch, storing = in_flight[0]
            summary.add(batch, await storing)
            in_flight.popleft()
            advanced(summary)

    try:
        # Reading and checking a batch takes a while: not on the loop.
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await settle(IN_FLIGHT - 1)
            in_flight.append((batch, asyncio.create_task(_store(client, batch))))
        await settle(0)
    finally:
        await cancel(*(storing for _, storing in in_flight))
    return summary


async def _store(client: StoringClient, batch: ImportBatch) -> MemoryReceiptV1 | None:
    if not batch.memories:
        return None
    receipt = await client.store(batch.memories)
    if receipt.error is not None:
        raise ClientError(f"the lines up to {batch.lines[-1]} were not stored: {receipt.error.message}")
    return receipt


async def wait_for_copies(
    record: Copies,
    position: int,
    *,
    stalled_s: float = STALLED_S,
    advanced: Callable[[Sequence[CopyPosition]], None] = lambda copies: None,
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
