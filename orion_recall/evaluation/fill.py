"""Fills index and graph with the memories of a file, as changes like those of the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from orion_recall.interfaces import Projection
from orion_recall.memory.succession.near import IndexNeighbours, successions_among
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, Neighbour, SuccessionLink

_AT_ONCE = 200


def changes(memories: Sequence[Memory]) -> list[Change]:
    """One change for each memory, in order, with its neighbouring turns by time, then by place in the file.

    The outbox repeats a turn when its neighbours change; here all neighbours are known, so once is enough.
    """
    sessions: dict[tuple[str, str], list[int]] = {}
    for place, memory in enumerate(memories):
        if memory.session_id is not None:
            sessions.setdefault((memory.tenant, memory.session_id), []).append(place)
    before: dict[int, Memory] = {}
    after: dict[int, Memory] = {}
    for places in sessions.values():
        places.sort(key=lambda place: (_time(memories[place]), place))
        for one, other in pairwise(places):
            after[one], before[other] = memories[other], memories[one]
    return [
        Change(
            position=place + 1,
            memory=memory,
            previous=_neighbour(before.get(place)),
            following=_neighbour(after.get(place)),
        )
        for place, memory in enumerate(memories)
    ]


async def fill(
    projections: Sequence[Projection], steps: Sequence[Change], advanced: Callable[[int], None] | None = None
) -> None:
    """Applies every change to every projection, concurrently. `advanced` is called with the number done."""
    for start in range(0, len(steps), _AT_ONCE):
        batch = steps[start : start + _AT_ONCE]
        await asyncio.gather(*(projection.apply(batch) for projection in projections))
        if advanced is not None:
            advanced(start + len(batch))


async def fill_successions(index: Projection, neighbours: IndexNeighbours, steps: Sequence[Change]) -> int:
    """Recognises successions among the changes' memories, which the index holds, and writes them to it; how many.

    The record does the same after a memory is stored.
    """
    found = await successions_among((step.memory for step in steps), neighbours)
    by_key = {memory_key(step.memory.tenant, step.memory.id): step for step in steps}
    changed: set[int] = set()
    for tenant, one in found:
        new, old = memory_key(tenant, one.new), memory_key(tenant, one.old)
        at = _time(by_key[new].memory)
        link = (one.confidence, at, "rule", one.reason)
        older = SuccessionLink(old, one.old, *link)
        newer = SuccessionLink(new, one.new, *link)
        by_key[new] = replace(by_key[new], succeeds=(*by_key[new].succeeds, older))
        by_key[old] = replace(by_key[old], succeeded_by=(*by_key[old].succeeded_by, newer))
        changed |= {new, old}
    again = [step for key, step in by_key.items() if key in changed]
    await fill([index], [replace(step, position=len(steps) + place) for place, step in enumerate(again, start=1)])
    return len(found)


def _time(memory: Memory) -> float:
    """The sort key of turns, as in the record: undated ones come first."""
    moment = memory.occurred_at if memory.occurred_at is not None else memory.mentioned_at
    return float("-inf") if moment is None else moment


def _neighbour(memory: Memory | None) -> Neighbour | None:
    return None if memory is None else Neighbour(id=memory.id, text=memory.text, speaker=memory.speaker)
