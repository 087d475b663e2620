"""Whether a copy of the record holds what it should, and mending one that does not.

A copy is compared up to its own position: what the outbox tells of behind it is on its way, and no drift. The copy
may move on meanwhile; what is told in that time is left out, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from orion_recall.errors import SourceError
from orion_recall.interfaces import MemoryReader, Projection, RewrittenCopy
from orion_recall.memory.record.reader import MemoryName, RecordReader
from orion_recall.memory.replicas.projector import Projector
from orion_recall.text.normal import memory_key
from orion_recall.values import JsonValue, MemoryView

_AT_ONCE = 200
_EXAMPLES = 5

Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What a copy that stands at `position` holds otherwise than the record.

    `missing` it should hold and does not, `stale` it holds in another version, `dead` were deleted or replaced, and
    `unknown` are keys of memories that the record knows nothing of.
    """

    position: int
    held: int
    in_flight: int
    missing: tuple[MemoryName, ...] = ()
    stale: tuple[MemoryName, ...] = ()
    dead: tuple[MemoryName, ...] = ()
    unknown: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Memories that are not as they should be."""
        return len(self.missing) + len(self.stale) + self.extra

    @property
    def extra(self) -> int:
        """Memories that are held and should not be."""
        return len(self.dead) + len(self.unknown)


async def find_drift(reader: RecordReader, projection: Projection) -> Drift:
    """Compares a copy with the record. RecordError, SourceError when one of them is away."""
    position = projection.position
    held = dict(await projection.held())
    count, in_flight = len(held), 0
    missing: list[MemoryName] = []
    stale: list[MemoryName] = []
    dead: list[MemoryName] = []
    async with aclosing(reader.states(position)) as pages:
        async for states in pages:
            for state in states:
                version = held.pop(memory_key(state.name.tenant, state.name.id), None)
                if state.in_flight:
                    in_flight += 1
                elif not state.is_live:
                    if version is not None:
                        dead.append(state.name)
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
        dead=tuple(dead),
        unknown=tuple(held),
    )


async def described(drift: Drift, projection: Projection) -> dict[str, JsonValue]:
    """The drift as JSON: counts, and a few memories of each sort as tenant/id, or the key of an unknown one."""
    unknown = drift.unknown[: max(0, _EXAMPLES - len(drift.dead))]
    views: Mapping[int, MemoryView] = {}
    if unknown and isinstance(projection, MemoryReader):
        views = await projection.fetch(unknown)
    named = [f"?/{views[key].id}" if key in views else f"key {key}" for key in unknown]
    examples: dict[str, JsonValue] = {
        "missing": _ids(drift.missing),
        "stale": _ids(drift.stale),
        "extra": [*_ids(drift.dead), *named],
    }
    return {
        "position": drift.position,
        "held": drift.held,
        "in_flight": drift.in_flight,
        "missing": len(drift.missing),
        "stale": len(drift.stale),
        "extra": drift.extra,
        "examples": {name: ids for name, ids in examples.items() if ids},
    }


async def mend(reader: RecordReader, projector: Projector, drift: Drift, told: Told) -> None:
    """Puts right what differs: from the record as it is now, beside what the projector applies.

    `told` gets how many are done, and of how many.
    """
    names = [*drift.missing, *drift.stale, *drift.dead]
    for start in range(0, len(names), _AT_ONCE):
        told(start, drift.count)
        await _write(reader, projector, names[start : start + _AT_ONCE])
    for start in range(0, len(drift.unknown), _AT_ONCE):
        told(len(names) + start, drift.count)
        async with projector.writing:
            await _may_write(projector)
            # A memory of that name may have been stored since.
            new = {memory_key(one.tenant, one.id) for one in await reader.told_since(drift.position)}
            keys = [key for key in drift.unknown[start : start + _AT_ONCE] if key not in new]
            await projector.projection.remove(keys)
    told(drift.count, drift.count)


async def rewrite(reader: RecordReader, projector: Projector, told: Told) -> Drift:
    """Writes every memory anew, in place, then takes out what does not belong there; the drift found at last.

    Searches go on meanwhile. A run that was stopped has harmed nothing; another begins from the start.
    """
    total, done, place = await reader.count(), 0, 0
    while True:
        names, place = await reader.live(place, _AT_ONCE)
        if not names:
            break
        await _write(reader, projector, names, anew=True)
        done += len(names)
        told(done, max(done, total))
    drift = await find_drift(reader, projector.projection)
    await mend(reader, projector, drift, lambda part, whole: None)
    return await find_drift(reader, projector.projection)


async def _write(
    reader: RecordReader, projector: Projector, names: Sequence[MemoryName], *, anew: bool = False
) -> None:
    """Puts memories in as they are now. The position stays: what the outbox tells behind it comes again."""
    projection = projector.projection
    async with projector.writing:
        await _may_write(projector)
        if not projection.position:
            return  # all is still to come
        changes = await reader.changes_of(names, projection.position)
        if anew and isinstance(projection, RewrittenCopy):
            await projection.apply_anew(changes)
        else:
            await projection.apply(changes)
        await projector.report()


async def _may_write(projector: Projector) -> None:
    if not await projector.may_write():
        raise SourceError(f"another worker writes to the {projector.kind} {projector.copy} now: ask again")


def _ids(names: Sequence[MemoryName]) -> list[str]:
    return [f"{name.tenant}/{name.id}" for name in names[:_EXAMPLES]]


def counts(described: Mapping[str, JsonValue]) -> int:
    """How many memories differ, by what `described` says."""
    return sum(int(str(described[name])) for name in ("missing", "stale", "extra"))
