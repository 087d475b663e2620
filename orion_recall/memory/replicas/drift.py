"""Drift: differences between a copy and the record, found and repaired.

A copy is compared up to its own position. Later outbox entries are in flight and no drift, and so are those that
come while it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from orion_recall.errors import SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.interfaces import Projection, RewrittenCopy
from orion_recall.memory.record.reader import MemoryName, RecordReader
from orion_recall.memory.replicas.projector import Projector
from orion_recall.text.normal import memory_key
from orion_recall.values import JsonValue

_AT_ONCE = 200
_EXAMPLES = 5

Progress = Callable[[int, int], None]
"""Gets how many are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The differences of a copy at `position` from the record.

    `missing` memories should be in it and are not, `stale` ones have another version, `deleted` ones were deleted
    or superseded and are still in it, and `unknown` are keys that the record does not know.
    """

    position: int
    held: int
    in_flight: int
    missing: tuple[MemoryName, ...] = ()
    stale: tuple[MemoryName, ...] = ()
    deleted: tuple[MemoryName, ...] = ()
    unknown: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return len(self.missing) + len(self.stale) + self.extra

    @property
    def extra(self) -> int:
        return len(self.deleted) + len(self.unknown)


async def find_drift(reader: RecordReader, projection: Projection) -> Drift:
    """Compares a copy with the record. RecordError, SourceError when one of them is away."""
    position = projection.position
    held = dict(await projection.held())
    count, in_flight = len(held), 0
    missing: list[MemoryName] = []
    stale: list[MemoryName] = []
    deleted: list[MemoryName] = []
    async with aclosing(reader.states(position)) as pages:
        async for states in pages:
            await FOREGROUND.pause()
            for state in states:
                version = held.pop(memory_key(state.name.tenant, state.name.id), None)
                if state.in_flight:
                    in_flight += 1
                elif not state.is_live:
                    if version is not None:
                        deleted.append(state.name)
                elif version is None:
                    missing.append(state.name)
                elif version != state.version:
                    stale.append(state.name)
    return Drift(
        position=position,
        held=count,
        in_flight=in_flight,
        missing=tuple(missing),
        stale=tuple(stale),
        deleted=tuple(deleted),
        unknown=tuple(held),
    )


def described(drift: Drift) -> dict[str, JsonValue]:
    """The drift as JSON: counts, and a few examples of each sort as tenant/id, or the key of an unknown memory."""

    def ids(names: Sequence[MemoryName]) -> list[str]:
        return [f"{name.tenant}/{name.id}" for name in names]

    extra = [*ids(drift.deleted), *(f"key {key}" for key in drift.unknown)]
    sorts = {"missing": ids(drift.missing), "stale": ids(drift.stale), "extra": extra}
    examples: dict[str, JsonValue] = {sort: [*names[:_EXAMPLES]] for sort, names in sorts.items() if names}
    counts: dict[str, JsonValue] = {sort: len(names) for sort, names in sorts.items()}
    about: dict[str, JsonValue] = {"position": drift.position, "held": drift.held, "in_flight": drift.in_flight}
    return about | counts | {"examples": examples}


def counts(described: Mapping[str, JsonValue]) -> int:
    """How many memories differ, from the JSON of `described`."""
    return sum(int(str(described[name])) for name in ("missing", "stale", "extra"))


async def repair(reader: RecordReader, projector: Projector, drift: Drift, progress: Progress) -> None:
    """Repairs the differences from the record as it is now, while the projector goes on."""
    names = [*drift.missing, *drift.stale, *drift.deleted]
    for start in range(0, len(names), _AT_ONCE):
        progress(start, drift.count)
        await _write(reader, projector, names[start : start + _AT_ONCE])
    for start in range(0, len(drift.unknown), _AT_ONCE):
        progress(len(names) + start, drift.count)
        async with projector.writing:
            await _may_write(projector)
            # A memory with that key may have been stored since.
            new = {memory_key(one.tenant, one.id) for one in await reader.queued_after(drift.position)}
            keys = [key for key in drift.unknown[start : start + _AT_ONCE] if key not in new]
            await projector.projection.remove(keys)
    progress(drift.count, drift.count)


async def rewrite(reader: RecordReader, projector: Projector, progress: Progress) -> Drift:
    """Writes every memory again, in place, then deletes what does not belong there; the drift that is left.

    Searches go on meanwhile. An interrupted run does no harm; the next one starts from the beginning.
    """
    total, done, place = await reader.count(), 0, 0
    while True:
        names, place = await reader.live(place, _AT_ONCE)
        if not names:
            break
        await _write(reader, projector, names, again=True)
        done += len(names)
        progress(done, max(done, total))
    drift = await find_drift(reader, projector.projection)
    await repair(reader, projector, drift, lambda part, whole: None)
    return await find_drift(reader, projector.projection)


async def _write(
    reader: RecordReader, projector: Projector, names: Sequence[MemoryName], *, again: bool = False
) -> None:
    """Writes memories as they are now. The position stays: later outbox entries are applied again."""
    projection = projector.projection
    async with projector.writing:
        await _may_write(projector)
        if not projection.position:
            return  # the outbox brings everything
        changes = await reader.changes_of(names, projection.position)
        if again and isinstance(projection, RewrittenCopy):
            await projection.apply_anew(changes)
        else:
            await projection.apply(changes)
        await projector.report()


async def _may_write(projector: Projector) -> None:
    if not await projector.may_write():
        raise SourceError(f"another worker writes to the {projector.kind} {projector.copy} now: try again")
