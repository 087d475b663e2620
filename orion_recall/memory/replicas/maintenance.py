"""Maintenance of a copy, on request and by itself: compare it with the record, repair it, swap in a rebuild.

A copy is compared up to its own position: later outbox entries are in flight and no drift. A command works on a
copy that no worker has open, and asks its worker through the table of requests for any other. The writer of a copy
compares it by itself, too, as an engine serves what is left of a damaged file as if nothing had happened.
Where not said otherwise it raises RecordError while Postgres is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, LiteralString

from orion_recall.errors import EngineError, ModelError, OrionError, RecordError, SourceError, TransientSourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.interfaces import Projection, RewrittenCopy, SwappedCopy
from orion_recall.memory.record.record import MemoryName, Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import Pool, borrow, fetched
from orion_recall.tasks import cancel, outcomes
from orion_recall.text.normal import memory_key
from orion_recall.values import JsonValue

_AT_ONCE, _EXAMPLES = 200, 5

Progress = Callable[[int, int], None]
"""Gets how many are done, and of how many."""


@dataclass(slots=True, kw_only=True)
class Drift:
    """The differences of a copy at `position` from the record; `unknown` are keys."""

    position: int
    held: int
    in_flight: int = 0
    missing: list[MemoryName] = field(default_factory=list[MemoryName])
    stale: list[MemoryName] = field(default_factory=list[MemoryName])
    deleted: list[MemoryName] = field(default_factory=list[MemoryName])
    unknown: Sequence[int] = ()

    @property
    def _sorts(self) -> dict[str, Sequence[MemoryName | int]]:
        return {"missing": self.missing, "stale": self.stale, "extra": [*self.deleted, *self.unknown]}

    @property
    def count(self) -> int:
        return sum(map(len, self._sorts.values()))

    def describe(self) -> dict[str, JsonValue]:
        examples: dict[str, JsonValue] = {
            sort: [f"key {one}" if isinstance(one, int) else f"{one.tenant}/{one.id}" for one in found[:_EXAMPLES]]
            for sort, found in self._sorts.items()
            if found
        }
        about = {name: getattr(self, name) for name in ("position", "held", "in_flight")}
        return {**about, **{sort: len(found) for sort, found in self._sorts.items()}, "examples": examples}

    def damage(self) -> str:
        """What differs, as counts: no id of a memory goes into a reply."""
        counts = ", ".join(f"{len(found)} {sort}" for sort, found in self._sorts.items() if found)
        return f"of {self.held + len(self.missing)} memories {counts}"


async def find_drift(record: Record, projection: Projection) -> Drift:
    """Compares a copy with the record. RecordError, SourceError when one of them is away."""
    held = dict(await projection.held())
    drift = Drift(position=projection.position, held=len(held))
    async with aclosing(record.states(drift.position)) as pages:
        async for states in pages:
            await FOREGROUND.pause()
            for tenant, name, version, is_live, in_flight in states:
                kept = held.pop(memory_key(tenant, name), None)
                if in_flight:
                    drift.in_flight += 1
                elif kept != (version if is_live else None):
                    sort = drift.missing if kept is None else drift.stale if is_live else drift.deleted
                    sort.append(MemoryName(tenant, name))
    drift.unknown = tuple(held)
    return drift


async def repair(projector: Projector, drift: Drift, progress: Progress) -> Drift:
    """Repairs the differences from the record as it is now, while the projector goes on; the drift that is left."""
    names = [*drift.missing, *drift.stale, *drift.deleted]
    await _write(projector, names, lambda done, _: progress(done, drift.count))
    for start in range(0, len(drift.unknown), _AT_ONCE):
        progress(len(names) + start, drift.count)
        async with _writing(projector) as projection:
            # A memory with that key may have been stored since.
            new = await projector.record.queued_after(drift.position)
            await projection.remove([key for key in drift.unknown[start : start + _AT_ONCE] if key not in new])
    progress(drift.count, drift.count)
    return await find_drift(projector.record, projector.projection)


async def _write(
    projector: Projector, names: Sequence[MemoryName], progress: Progress, *, again: bool = False
) -> None:
    record = projector.record
    for start in range(0, len(names), _AT_ONCE):
        progress(start, len(names))
        async with _writing(projector) as projection:
            if not projection.position:
                return  # the outbox brings everything
            changes = await record.changes_of(names[start : start + _AT_ONCE], projection.position)
            if again and isinstance(projection, RewrittenCopy):
                await projection.apply_anew(changes)
            else:
                # The turn before it says which one follows.
                before = {MemoryName(one.memory.tenant, one.previous.id) for one in changes if one.previous}
                changes += await record.changes_of(sorted(before.difference(names)), projection.position)
                await projection.apply(changes)
            await projector.report()


@contextlib.asynccontextmanager
async def _writing(projector: Projector) -> AsyncGenerator[Projection]:
    async with projector.writing:
        if not await projector.may_write():
            raise SourceError(f"another worker writes to the {projector.kind} {projector.copy} now: try again")
        yield projector.projection


log = logging.getLogger("orion_recall.memory")

Task = Literal["check", "repair", "rewrite", "take", "compact", "recall"]

# A worker polls every second, and gives a heartbeat every five while it works on a request.
_HEARTBEAT_EVERY_S, _POLL_S, _SILENT_S, _LOOK_EVERY_S = 5.0, 1.0, 20.0, 0.2
_CHECK_EVERY_S, _CHECK_AGAIN_S, _CHECK_AWAY_S = 6 * 3600.0, 60.0, 5.0

_ASK: LiteralString = "INSERT INTO copy_requests (copy, kind, task, given) VALUES ($1, $2, $3, $4) RETURNING id"
# Requests whose command was killed stay, and the answer to a recall repeats the words of its decision. Who waits
# for an answer takes it within a second.
_TIDY: LiteralString = """
DELETE FROM copy_requests WHERE ended_at < now() - interval '1 minute' OR asked_at < now() - interval '1 day'
"""
_STATE: LiteralString = """
SELECT done, total, ended_at IS NOT NULL AS ended, result, error,
    extract(epoch FROM clock_timestamp() - coalesce(seen_at, asked_at))::float8 AS silent_s
FROM copy_requests WHERE id = $1
"""
_WITHDRAW: LiteralString = "DELETE FROM copy_requests WHERE id = $1"
# One that a worker began and left is claimed by the next.
_CLAIM: LiteralString = """
UPDATE copy_requests SET seen_at = now() WHERE id = (
    SELECT id FROM copy_requests
    WHERE copy = $1 AND kind = $2 AND ended_at IS NULL AND asked_at > now() - interval '10 minutes'
      AND (seen_at IS NULL OR seen_at < now() - make_interval(secs => $3))
    ORDER BY id LIMIT 1
    FOR UPDATE SKIP LOCKED
) RETURNING id, task, given
"""
_HEARTBEAT: LiteralString = "UPDATE copy_requests SET seen_at = now(), done = $2, total = $3 WHERE id = $1"
_END: LiteralString = "UPDATE copy_requests SET ended_at = now(), result = $2, error = $3 WHERE id = $1"

Work = Callable[[Task, Mapping[str, JsonValue], Progress], Awaitable[Mapping[str, JsonValue]]]
"""Carries out a task, with what it is about, if anything; its result as JSON."""


async def serve(pool: Pool, copy: str, kind: str, work: Work) -> bool:
    """Claims the next request for a copy, and answers it, also with an error; whether there was one."""
    async with borrow(pool, "looking for requests") as connection:
        await connection.execute(_TIDY)
        row = await connection.fetchrow(_CLAIM, copy, kind, _SILENT_S)
    if row is None:
        return False
    reached = [0, 0]

    def progress(done: int, total: int) -> None:
        reached[:] = done, total

    async def beat() -> None:
        while True:
            with contextlib.suppress(RecordError):
                await fetched(pool, "working on a request", _HEARTBEAT, row["id"], *reached)
            await asyncio.sleep(_POLL_S if reached[1] else _HEARTBEAT_EVERY_S)

    beating = asyncio.create_task(beat())
    try:
        doing = work(row["task"], row["given"] or {}, progress)
        (result,) = await outcomes("a request could not be answered", doing)
    finally:
        await cancel(beating)
    error = str(result) if isinstance(result, OrionError) else None
    if error is None and isinstance(result, Exception):
        error = f"{type(result).__name__}: the worker's log says more"
    await fetched(pool, "answering a request", _END, row["id"], None if error else result, error)
    return True


async def answered(
    pool: Pool, copy: str, kind: str, task: Task, progress: Progress, given: Mapping[str, JsonValue] | None = None
) -> Mapping[str, JsonValue]:
    """Asks a copy's worker by the table of requests, and waits for the answer."""
    async with borrow(pool, "asking a worker") as connection:
        await connection.execute(_TIDY)
        request = await connection.fetchval(_ASK, copy, kind, task, given)
    what = f"the {kind} of {copy}"
    try:
        while True:
            rows = await fetched(pool, "waiting for a worker", _STATE, request)
            if not rows:
                raise SourceError(f"the request to {what} was deleted before its answer: try again")
            row = rows[0]
            if row["error"] is not None:
                raise SourceError(f"{what}: {row['error']}")
            if row["ended"]:
                return row["result"]
            if row["silent_s"] > _SILENT_S:
                more = "it may have ended, or cannot use it (`orion-recall status` says more)"
                raise SourceError(f"no worker answers for {what}: {more}")
            progress(row["done"], row["total"])
            await asyncio.sleep(_LOOK_EVERY_S)
    finally:
        with contextlib.suppress(RecordError):
            await fetched(pool, "taking a request away", _WITHDRAW, request)


async def do(task: Task, projector: Projector, progress: Progress) -> dict[str, JsonValue]:
    """Carries out the task; its result as JSON. `left` counts what still differs after a repair."""
    projection, record = projector.projection, projector.record
    if task == "take":
        async with projector.writing:
            taken = await projector.swap_in_rebuild()
        return {"taken": taken, "position": projection.position}
    if task == "compact":
        async with projector.writing:
            position = await projector.catch_up()
            if not isinstance(projection, SwappedCopy):  # a server's files are its own
                return {"compacted": False, "position": position, "builds": 0, "held": []}
            builds, held = await projection.compact()
        log.info("the files of the %s were written anew, without what was deleted", projector.kind)
        return {"compacted": True, "position": position, "builds": builds, "held": list(held)}
    if task == "rewrite":
        async with aclosing(record.states(projection.position)) as pages:
            names = [MemoryName(row["tenant"], row["id"]) async for rows in pages for row in rows if row["live"]]
        await _write(projector, names, progress, again=True)
        left = await repair(projector, await find_drift(record, projection), lambda done, total: None)
        return left.describe() | {"left": left.count}
    drift = await find_drift(record, projection)
    projector.drifted += drift.count
    if task == "check" or not drift.count:
        return drift.describe()
    left = await repair(projector, drift, progress)
    log.info("the %s was repaired: %d memories differed from the record", projector.kind, drift.count)
    return drift.describe() | {"left": left.count}


class CopyKeeper:
    """Answers the requests for one copy, and compares it every six hours: `run()` until cancelled."""

    def __init__(self, pool: Pool, projector: Projector, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._projector, self._clock = pool, projector, clock
        self._due_at, self._rebuilds = 0.0, projector.rebuilds

    async def run(self) -> None:
        projector = self._projector
        while True:
            await asyncio.sleep(_POLL_S)
            with contextlib.suppress(RecordError):
                if projector.is_writer:
                    await serve(self._pool, projector.copy, projector.kind, self._do)
                await self.check_if_due()

    async def check_if_due(self) -> bool:
        """Compares, and repairs what differs, if it is time and the copy has caught up; whether it did."""
        projector, projection = self._projector, self._projector.projection
        is_due = self._clock() >= self._due_at or self._rebuilds != projector.rebuilds
        if projector.error is not None or projector.lag != 0 or not projector.is_writer or not is_due:
            return False
        self._rebuilds = projector.rebuilds
        self._due_at = self._clock() + _CHECK_AGAIN_S  # also after an error
        was_damaged = projection.damage is not None
        try:
            drift = await find_drift(projector.record, projection)
            projector.drifted += drift.count
            if drift.count:
                projection.damage = drift.damage()
                log.error("the %s differs from the record, and is repaired: %s", projector.kind, projection.damage)
                drift = await repair(projector, drift, lambda done, total: None)
            projection.damage = drift.damage() if drift.count else None
        except TransientSourceError as error:
            # A copy that is away for now fails its own searches. That is no damage: it is compared once it is back.
            self._due_at = self._clock() + _CHECK_AWAY_S
            log.warning("the %s is compared with the record later: %s", projector.kind, error)
            return False
        except (SourceError, ModelError, EngineError) as error:
            projection.damage = f"it cannot be compared with the record: {error}"
        if projection.damage is not None:
            log.error("the %s is not as the record: %s", projector.kind, projection.damage)
            return True
        if was_damaged:
            log.info("the %s is as the record again", projector.kind)
        self._due_at = self._clock() + _CHECK_EVERY_S
        return True

    async def _do(self, task: Task, given: Mapping[str, JsonValue], progress: Progress) -> Mapping[str, JsonValue]:
        if self._projector.error is not None:
            raise SourceError(self._projector.error)
        return await do(task, self._projector, progress)
