"""Projection: applies the outbox to one copy of the record, the index or the graph.

Every copy keeps its own position in the outbox, so a new or rebuilt one starts at zero and catches up. Only the
worker with the writer lock writes to a copy that several workers share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection

from orion_recall.errors import AnotherRecordsCopy, DiskShort, EngineError, ModelError, RecordError, SourceError
from orion_recall.interfaces import Prepares, Projection, SwappedCopy
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Connection, close_connection, open_connection, translate
from orion_recall.tasks import POSTGRES_S, Backoff, sleep
from orion_recall.values import Change

log = logging.getLogger("orion_recall.memory")

_AT_ONCE = 200
_POLL_S, _TRY_LOCK_EVERY_S = 0.25, 1.0
# A copy without heartbeats counts as gone after `record.GONE_AFTER_S`.
_HEARTBEAT_EVERY_S = 20.0
_ANSWER_MS, _CLOSE_TIMEOUT_S, _LONGEST_TRANSACTION_S = 5000, 1.0, 20.0

# A lock of a transaction, not of a session, so that a pooler cannot give its connection to others. A transaction
# that has locked a row delays vacuum, so it is a new one after some seconds: in between another worker may come
# first. The server may not end it as idle, and notices within half a minute that the machine of its holder has
# vanished.
_BEGIN = """
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
"""
_ADD_NAME = "INSERT INTO write_locks (name) VALUES ($1) ON CONFLICT DO NOTHING"
_TRY_LOCK = "SELECT try_write_lock($1)"


class WriterLock:
    """The writer lock of one copy, on a separate connection, so that the lock of a dead worker is released."""

    def __init__(self, dsn: str, *, kind: str, copy: str) -> None:
        self._dsn, self._name = dsn, f"the {kind} {copy}"
        self._connection: Connection | None = None
        self._held_since = 0.0
        self.is_held = False
        """Whether this process held the lock when it last asked."""

    async def acquire(self) -> bool:
        """Whether this process holds the lock now; takes it when it is free. RecordError while Postgres is away."""
        try:
            with translate("taking the writer lock"):
                if self._connection is None or self._connection.is_closed():
                    await self.release()
                    self._connection = await open_connection(
                        self._dsn, name="turn", statement_timeout_ms=_ANSWER_MS
                    )
                    # By itself: others wait for the end of a transaction that has added the name.
                    await self._connection.execute(_ADD_NAME, self._name)
                connection, was_held, self.is_held = self._connection, self.is_held, False
                if was_held and time.monotonic() - self._held_since < _LONGEST_TRANSACTION_S:
                    await connection.execute("SELECT 1")  # raises when it has gone, and the lock with it
                    self.is_held = True
                    return True
                if was_held:
                    await connection.execute("COMMIT")
                await connection.execute(_BEGIN)
                self.is_held, self._held_since = await connection.fetchval(_TRY_LOCK, self._name), time.monotonic()
                if not self.is_held:
                    await connection.execute("ROLLBACK")
                elif not was_held:
                    log.debug("took the writer lock of %s", self._name)
                return self.is_held
        except RecordError:
            await self.release()
            raise

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        if self.is_held:
            log.debug("released the writer lock of %s", self._name)
        self.is_held = False
        if connection is not None:
            try:
                await close_connection(connection, _CLOSE_TIMEOUT_S)
            finally:
                connection.terminate()  # after a close that was cut short; else it does nothing


class Projector:
    """Keeps one copy up to date: `run()` until cancelled. A shared copy needs a `lock`."""

    def __init__(
        self, record: Record, projection: Projection, *, copy: str, lock: WriterLock | None = None
    ) -> None:
        assert lock is not None or not projection.shared, "a shared copy needs a writer lock"
        self.copy, self.kind, self.projection = copy, projection.kind, projection
        self.record, self._lock = record, lock
        self._wake = asyncio.Event()
        self._head: int | None = None
        self._identity: str | None = None
        self._heartbeat_at: float | None = None
        self._reported: int | None = None
        self._tried_rebuild, self.rebuilds = False, 0
        self.error: str | None = None
        # In how many memories it differed from the record, in all comparisons together.
        self.drifted = 0
        # Held while this process writes to the copy, here or elsewhere.
        self.writing = asyncio.Lock()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes to the copy: to a shared one with the writer lock only."""
        return self._lock is None or self._lock.is_held

    async def may_write(self) -> bool:
        """Whether this process may write to the copy now, taking the writer lock if it is free; hold `writing`."""
        return self._lock is None or await self._lock.acquire()

    @property
    def lag(self) -> int | None:
        """The lag: positions of the outbox, as last read, that are not applied yet; None before the first read."""
        return None if self._head is None else max(0, self._head - self.projection.position)

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Applies what is new, when woken or after a moment; waits while the record is away."""
        backoff = Backoff(*POSTGRES_S)
        try:
            while True:
                try:
                    async with self.writing:
                        next_poll_s = await self._poll()
                    self.error = self.projection.stalled = None
                    backoff.reset()
                except (RecordError, SourceError, ModelError) as error:
                    if self.error is None:
                        log.warning("the %s waits: %s", self.kind, error)
                    self.error, self._identity = str(error), None
                    # Only what lasts until somebody acts makes answers incomplete for long.
                    is_stalled = isinstance(error, DiskShort) and self.lag != 0
                    self.projection.stalled = "its disk is short" if is_stalled else None
                    # Its position may not be known.
                    with contextlib.suppress(RecordError):
                        if self._heartbeat_is_due:
                            await self.record.heartbeat(self.copy, self.kind)
                            self._heartbeat_at = time.monotonic()
                    if self._lock is not None:
                        await self._lock.release()  # another worker may be able to write
                    if isinstance(error, AnotherRecordsCopy):
                        # It is at position 0 of this record; those that wait for it see that.
                        with contextlib.suppress(RecordError):
                            await self.record.report_position(self.copy, self.kind, 0)
                    await backoff.wait()
                    continue
                self._wake.clear()
                await sleep(next_poll_s, self._wake)
        finally:
            if self._lock is not None:
                await self._lock.release()

    async def _poll(self) -> float:
        if self._lock is None:
            await self.catch_up()
            if not self._tried_rebuild:
                # A rebuild may have been completed while no worker was there to swap it in.
                self._tried_rebuild = True
                try:
                    await self.swap_in_rebuild()
                except (SourceError, EngineError) as error:
                    log.warning("the rebuilt %s is not swapped in, the present one stays: %s", self.kind, error)
            return _POLL_S
        await self._expect()
        may_write = await self._lock.acquire()
        # Checked again: others may have written to it, or its server may have lost data, or be away.
        await self.projection.open()
        if may_write:
            await self.catch_up()
            return _POLL_S
        await self._refuse_or_adopt()
        return _TRY_LOCK_EVERY_S

    async def swap_in_rebuild(self) -> bool:
        """Whether a complete rebuild was swapped in, brought to the position of the copy in use; hold `writing`."""
        projection = self.projection
        if not isinstance(projection, SwappedCopy) or (built := projection.staged_rebuild()) is None:
            return False
        if self._identity is not None:
            built.expect(self._identity)
        await built.open()
        try:
            while built.position < projection.position:
                changes = await self.record.changes(built.position, _AT_ONCE)
                if not changes:
                    raise SourceError(
                        "the outbox lacks entries that it needs: build it again with `orion-recall memory rebuild`"
                    )
                await built.apply([one for one in changes if one.position <= projection.position])
            await projection.swap_in(built)
        except BaseException:
            await built.close()
            raise
        self.rebuilds += 1
        log.info("the rebuilt %s is in use, at position %d", self.kind, projection.position)
        return True

    async def _expect(self) -> None:
        if self._identity is None:
            self._identity = await self.record.database_identity()
            self.projection.expect(self._identity)

    async def _refuse_or_adopt(self) -> None:
        """Refuses a copy of another database, and one that holds memories and does not say of which one."""
        projection = self.projection
        if projection.database_identity is not None:
            return await projection.check()
        if projection.position == 0:
            return await projection.adopt()
        raise AnotherRecordsCopy(
            f"the {self.kind} does not say which database it is a copy of: delete it, and it is built again from "
            "this record"
        )

    async def ready(self) -> None:
        """Opens the copy for writing by this process and applies nothing; hold `writing`."""
        await self._expect()
        if not await self.may_write():
            raise SourceError(
                f"a worker writes to the {self.kind} {self.copy} now: try again, or stop that worker first"
            )
        await self.projection.open()
        await self._refuse_or_adopt()

    async def catch_up(self) -> int:
        """Applies everything in the outbox after the copy's position; the new position."""
        projection = self.projection
        await self._expect()
        await self._refuse_or_adopt()
        self._head = head = await self.record.head()
        if head < projection.position:
            # The record was put back to an earlier state, or this copy belongs to another one.
            raise SourceError(
                f"the {projection.kind} is ahead of the record (position {projection.position}, record {head}): "
                f"delete {'it' if projection.shared else 'its folder'}, and it will be rebuilt from this record"
            )
        moved = False
        ahead: tuple[int, asyncio.Task[list[Change]]] | None = None  # the page after a position
        try:
            while head > (position := projection.position):
                if ahead is not None and ahead[0] != position:
                    ahead[1].cancel()
                    ahead = None
                changes = await (ahead[1] if ahead is not None else self._page(position))
                if not changes or not await self.may_write():
                    break
                if projection.position != position:  # opened anew meanwhile: this page may not be the next one
                    continue
                if head > (last := changes[-1].position) and isinstance(projection, Prepares):
                    # A memory that changes after its page was read comes again later in the outbox.
                    ahead = last, asyncio.create_task(self._page(last, projection))
                await projection.apply(changes)
                await self.report()
                moved = True
        finally:
            if ahead is not None:
                ahead[1].cancel()
                await asyncio.gather(ahead[1], return_exceptions=True)
        position = projection.position
        # Another may have moved the position on. Reported at once: what a process applied that died before its
        # report, and a copy that was put back.
        is_unreported = self._reported != position and (position or self._reported)
        if head <= position and not moved and (is_unreported or self._heartbeat_is_due):
            await self.report()
        if not moved and self.error is not None:
            log.info("the %s is applied again, from position %d", projection.kind, position)
        return projection.position

    async def _page(self, after: int, preparing: Prepares | None = None) -> list[Change]:
        page = await self.record.changes(after, _AT_ONCE)
        if page and preparing is not None:
            await preparing.prepare(page)
        return page

    @property
    def _heartbeat_is_due(self) -> bool:
        return self._heartbeat_at is None or time.monotonic() - self._heartbeat_at > _HEARTBEAT_EVERY_S

    async def report(self) -> None:
        position = self.projection.position
        await self.record.report_position(self.copy, self.kind, position)
        self._reported, self._heartbeat_at = position, time.monotonic()


async def heartbeat_for_broken(record: Record, copy: str, kinds: Collection[str]) -> None:
    """Heartbeats, until cancelled, for copies that are broken while their worker runs."""
    while True:
        with contextlib.suppress(RecordError):
            for kind in kinds:
                await record.heartbeat(copy, kind)
        await asyncio.sleep(_HEARTBEAT_EVERY_S)
