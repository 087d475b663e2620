"""Bringing the copies of the record - index and graph - up to date from the outbox.

Every copy keeps its own position, so a new or rebuilt one begins at zero and catches up by itself. To a copy that
several workers share only one of them writes at a time; the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Sequence

from orion_recall.backoff import POSTGRES_S, Backoff
from orion_recall.errors import AnotherRecordsCopy, EngineError, ModelError, RecordError, SourceError
from orion_recall.interfaces import MarkedCopy, Prepares, Projection, SwappedCopy
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.writer_lock import Turn
from orion_recall.tasks import sleep
from orion_recall.values import Change

log = logging.getLogger("orion_recall.memory")

_AT_ONCE = 200
_LOOK_EVERY_S = 0.25
_ASK_FOR_TURN_EVERY_S = 1.0
# So that the record knows who is gone: see `record.GONE_AFTER_S`.
_SIGN_EVERY_S = 20.0


class Projector:
    """Keeps one copy up to date: `run()` until cancelled. `copy` is the name the copy is registered under.

    `turn` is needed for a copy that is shared.
    """

    def __init__(self, record: Record, projection: Projection, *, copy: str, turn: Turn | None = None) -> None:
        assert turn is not None or not projection.shared, "a shared copy is written in turns"
        self.copy = copy
        self._record, self._projection, self._turn = record, projection, turn
        self._wake = asyncio.Event()
        self._head: int | None = None
        self._mark: str | None = None
        self._signed_at: float | None = None
        self._reported: int | None = None
        self._looked_beside = False
        self.error: str | None = None
        # Held for every look; others that write to the copy hold it for theirs.
        self.writing = asyncio.Lock()

    @property
    def projection(self) -> Projection:
        """The copy."""
        return self._projection

    @property
    def is_writer(self) -> bool:
        """Whether this process writes to the copy: of a shared one only who has the turn."""
        return self._turn is None or self._turn.was_mine

    async def may_write(self) -> bool:
        """Whether this process may write to the copy now; ask under `writing`."""
        return self._turn is None or await self._turn.is_mine()

    @property
    def kind(self) -> str:
        """What it keeps up to date: index or graph."""
        return self._projection.kind

    @property
    def behind(self) -> int | None:
        """Positions of the outbox, as last seen, that the copy does not hold yet; None before the first look."""
        return None if self._head is None else max(0, self._head - self._projection.position)

    def wake(self) -> None:
        """There is something new."""
        self._wake.set()

    async def run(self) -> None:
        """Apply what is new, look again when woken or after a moment; wait while the record is away."""
        backoff = Backoff(*POSTGRES_S)
        try:
            while True:
                try:
                    async with self.writing:
                        next_look_s = await self._look()
                    self.error = None
                    backoff.reset()
                except (RecordError, SourceError, ModelError) as error:
                    if self.error is None:
                        log.warning("the %s waits: %s", self._projection.kind, error)
                    self.error, self._mark = str(error), None
                    await self._give_sign()
                    await self._end_turn()  # another worker may be able to
                    if isinstance(error, AnotherRecordsCopy):
                        await self._report_nothing()
                    await backoff.wait()
                    continue
                self._wake.clear()
                await sleep(next_look_s, self._wake)
        finally:
            await self._end_turn()

    async def _look(self) -> float:
        """Catch up, when it is this process's turn; the seconds to the next look."""
        if self._turn is None:
            await self.catch_up()
            await self._look_beside()
            return _LOOK_EVERY_S
        await self._expect()
        is_mine = await self._turn.is_mine()
        # Others may have written to it, its server may have lost what was there, or be gone: it is looked at again.
        await self._projection.open()
        if not is_mine:
            await self._refuse_or_adopt()  # a writer of an earlier version would not
            return _ASK_FOR_TURN_EVERY_S
        await self.catch_up()
        return _LOOK_EVERY_S

    async def _look_beside(self) -> None:
        """At the start: a copy may have been built anew, and nobody was there to take it."""
        if self._looked_beside:
            return
        self._looked_beside = True
        try:
            await self.take_beside()
        except (SourceError, EngineError) as error:
            log.warning("the %s that stands beside cannot be taken: %s", self.kind, error)

    async def take_beside(self) -> bool:
        """Whether a complete copy stood beside and has taken the place; hold `writing`.

        First it is brought to where the other one is: what was told to be there, or gone, stays so.
        """
        projection = self._projection
        if not isinstance(projection, SwappedCopy) or (built := projection.beside()) is None:
            return False
        if self._mark is not None and isinstance(built, MarkedCopy):
            built.expect(self._mark)
        await built.open()
        try:
            while built.position < projection.position:
                changes = await self._record.changes(built.position, _AT_ONCE)
                if not changes:
                    raise SourceError("the record does not tell what it lacks")
                await built.apply([one for one in changes if one.position <= projection.position])
            await projection.take(built)
        except BaseException:
            await built.close()
            raise
        log.info("the %s that was built anew is in use, at position %d", self.kind, projection.position)
        return True

    async def _expect(self) -> None:
        """Tell the copy whose it must be; read once, and again after a failure."""
        if self._mark is None and isinstance(self._projection, MarkedCopy):
            self._mark = await self._record.mark()
            self._projection.expect(self._mark)

    async def _refuse_or_adopt(self) -> None:
        """Refuse another's. A copy without a mark is of this record if it holds what that tells at its position."""
        projection = self._projection
        if not isinstance(projection, MarkedCopy):
            return
        if projection.record is not None:
            await projection.check()
            return
        position = projection.position
        told = await self._record.changes(position - 1, 1) if position else []
        if position and (not told or told[0].position != position):
            return  # ahead of this record
        await projection.adopt(told[0].memory if told else None)

    async def _report_nothing(self) -> None:
        """What is another record's is at no position of this one: whoever waits for it is told."""
        with contextlib.suppress(RecordError):
            await self._record.report(self.copy, self._projection.kind, 0)

    async def _end_turn(self) -> None:
        if self._turn is not None:
            await self._turn.end()

    async def ready(self) -> None:
        """Opens the copy for this process's own hands, as a look would, and applies nothing; hold `writing`.

        SourceError when another worker has the turn, AnotherRecordsCopy when it is not this record's.
        """
        await self._expect()
        if not await self.may_write():
            raise SourceError(f"a worker writes to the {self.kind} {self.copy}")
        await self._projection.open()
        await self._refuse_or_adopt()

    async def catch_up(self) -> int:
        """Apply everything in the outbox after the copy's position; the new position."""
        projection = self._projection
        await self._expect()
        await self._refuse_or_adopt()
        self._head = head = await self._record.head()
        if head < projection.position:
            # The record was put back to an earlier state, or this copy belongs to another one.
            raise SourceError(
                f"the {projection.kind} is ahead of the record (position {projection.position}, record {head}): "
                f"delete {'it' if projection.shared else 'its folder'}, and it will be rebuilt from this record"
            )
        moved, ahead = False, Ahead(self._record, projection)
        async with contextlib.aclosing(ahead):
            while head > projection.position:
                changes = await ahead.changes(projection.position)
                if not changes or (self._turn is not None and not await self._turn.is_mine()):
                    break
                ahead.look_behind(changes, head)
                await projection.apply(changes)
                await self.report()
                moved = True
        if head <= projection.position:  # not where the turn was lost: another may have moved the position on
            # What a process applied that died before it could say so, and what was put back, is told at once.
            is_untold = self._reported != projection.position and (projection.position or self._reported)
            if not moved and (is_untold or self._sign_is_due):
                await self.report()
        if not moved and self.error is not None:
            log.info("the %s goes on at position %d", projection.kind, projection.position)
        return projection.position

    @property
    def _sign_is_due(self) -> bool:
        return self._signed_at is None or time.monotonic() - self._signed_at > _SIGN_EVERY_S

    async def report(self) -> None:
        """Tell the record how far the copy has come."""
        position = self._projection.position
        await self._record.report(self.copy, self._projection.kind, position)
        self._reported, self._signed_at = position, time.monotonic()

    async def _give_sign(self) -> None:
        """Somebody keeps the copy, though it does not move now; its position may not be known."""
        if self._sign_is_due:
            with contextlib.suppress(RecordError):
                await self._record.sign(self.copy, self._projection.kind)
                self._signed_at = time.monotonic()


class Ahead:
    """Pages of the outbox. The next one is read, and made ready, while one is written.

    What is read ahead may have changed when it is written; then it comes again in the outbox, further on.
    """

    def __init__(self, record: Record, projection: Projection) -> None:
        self._record, self._projection = record, projection
        self._after: int | None = None
        self._reading: asyncio.Task[list[Change]] | None = None

    async def changes(self, after: int) -> list[Change]:
        """The page after a position."""
        reading, self._reading = self._reading, None
        if reading is None:
            return await self._record.changes(after, _AT_ONCE)
        page = await reading
        # A copy that stayed where it was, or was moved, goes on from where it is.
        return page if self._after == after else await self._record.changes(after, _AT_ONCE)

    def look_behind(self, page: Sequence[Change], head: int) -> None:
        """Begin with the page that follows this one, where the outbox goes on and something can be made ready."""
        self._after = page[-1].position
        if head > self._after and isinstance(self._projection, Prepares):
            self._reading = asyncio.create_task(self._ready(self._projection, self._after))

    async def aclose(self) -> None:
        """Leave nothing under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _ready(self, projection: Prepares, after: int) -> list[Change]:
        page = await self._record.changes(after, _AT_ONCE)
        if page:
            await projection.prepare(page)
        return page


async def sign_for_broken(record: Record, copy: str, kinds: Collection[str]) -> None:
    """Signs of life, until cancelled, for copies that cannot be used though their worker runs.

    They do not move, so that whoever waits for them is told; only those of workers that are gone are passed over.
    """
    while kinds:
        with contextlib.suppress(RecordError):
            for kind in kinds:
                await record.sign(copy, kind)
        await asyncio.sleep(_SIGN_EVERY_S)
    await asyncio.Event().wait()
