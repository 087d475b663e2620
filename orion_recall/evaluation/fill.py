"""Fills index and graph with the memories of a file, as changes like those of the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

from orion_recall.index.text_forms import event_time
from orion_recall.interfaces import Projection
from orion_recall.values import Change, Memory, Neighbour

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


def _time(memory: Memory) -> float:
    """The sort key of turns, as in the record: undated ones come first."""
    moment = event_time(memory)
    return float("-inf") if moment is None else moment


def _neighbour(memory: Memory | None) -> Neighbour | None:
    return None if memory is None else Neighbour(id=memory.id, text=memory.text, speaker=memory.speaker)
