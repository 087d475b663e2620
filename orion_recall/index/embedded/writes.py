"""What is written to a shard of Qdrant Edge, and what has to be read for it. Everything here blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import qdrant_edge as qe

from orion_recall.foreground import FOREGROUND
from orion_recall.index.embedded.points import edge_point
from orion_recall.index.points import HeldName, HeldPoint, IndexStep, Name, held_name, held_point

# The engine writes and reads vectors under Python's lock: small pages of them.
_PAGE, _PAGE_AGAIN, _PAGE_READ = 1000, 25, 10


def read_held(shard: qe.EdgeShard, keys: Sequence[int]) -> dict[int, HeldPoint]:
    """What the shard holds of the memories, by key, vectors included."""
    records = shard.retrieve(list(keys), True, True)
    return {
        cast("int", record.id): held_point(
            cast("dict[str, Any]", record.payload), cast("Mapping[str, Any]", record.vector or {})
        )
        for record in records
    }


def read_names(shard: qe.EdgeShard, keys: Sequence[int]) -> dict[int, HeldName]:
    """What the shard holds of the entities, by key; those without a vector of their name are left out."""
    names: dict[int, HeldName] = {}
    for record in shard.retrieve(list(keys), True, True) if keys else ():
        vectors = cast("Mapping[str, Any]", record.vector or {})
        if (one := held_name(cast("dict[str, Any]", record.payload), vectors)) is not None:
            names[cast("int", record.id)] = one
    return names


_MOST_KEPT = 5000


class Written:
    """What was written last under each key: the point itself of some thousands, then the keys alone."""

    def __init__(self) -> None:
        self._points: dict[int, qe.Point | None] = {}
        self._keys: set[int] = set()

    def note(self, key: int, point: qe.Point | None) -> None:
        """This is under the key now; None: it was taken out."""
        self._keys.discard(key)
        if point is None or key in self._points or len(self._points) < _MOST_KEPT:
            self._points[key] = point
        else:
            self._keys.add(key)

    def pages(self, live: qe.EdgeShard) -> Iterator[tuple[list[qe.PointId], list[qe.Point]]]:
        """What is to be taken out, and what put in, a page at a time: each is done under Python's lock."""
        noted = [*self._points.items()]
        for start in range(0, len(noted), _PAGE_AGAIN):
            page = noted[start : start + _PAGE_AGAIN]
            yield [key for key, one in page if one is None], [one for _, one in page if one is not None]
        keys: list[qe.PointId] = [*self._keys]
        for start in range(0, len(keys), _PAGE_READ):
            records = live.retrieve(keys[start : start + _PAGE_READ], True, True)
            yield [], [qe.Point(one.id, one.vector or {}, one.payload) for one in records]


def carry_out(shard: qe.EdgeShard, step: IndexStep, written: Written | None = None) -> None:
    """Does the step. Names first: until the memories are written, a second try finds what they gave.

    `written` is told of each half of it once that is done.
    """
    about = [*step.gone, *(point.key for point in step.points)]
    forgotten = [name.key for name in step.forgotten if not _is_given(shard, name, about)]
    if gone := [*forgotten, *step.gone]:
        shard.update(qe.UpdateOperation.delete_points([*gone]))
        if written is not None:
            for key in gone:
                written.note(key, None)
    for start in range(0, len(step.points), _PAGE_AGAIN):
        FOREGROUND.yield_to_foreground()
        page = {one.key: edge_point(one) for one in step.points[start : start + _PAGE_AGAIN]}
        shard.update(qe.UpdateOperation.upsert_points([*page.values()]))
        if written is not None:
            for key, point in page.items():
                written.note(key, point)


def write_again(copy: qe.EdgeShard, written: Written, live: qe.EdgeShard) -> None:
    """Makes a copy hold what was written to the live shard since it was made."""
    for gone, points in written.pages(live):
        if gone:
            copy.update(qe.UpdateOperation.delete_points(gone))
        if points:
            copy.update(qe.UpdateOperation.upsert_points(points))


def read_versions(shard: qe.EdgeShard) -> dict[int, int]:
    """The version of every memory in the shard, by key."""
    versions: dict[int, int] = {}
    offset: Any = None
    while True:
        request = qe.ScrollRequest(offset=offset, limit=_PAGE, with_payload=["version"], with_vector=False)
        records, offset = shard.scroll(request)
        for record in records:
            payload = cast("Mapping[str, Any]", record.payload or {})
            if "version" in payload:  # an entity has none
                versions[cast("int", record.id)] = int(payload["version"])
        if offset is None:
            return versions


def _is_given(shard: qe.EdgeShard, name: Name, besides: Sequence[int]) -> bool:
    """Whether a memory gives the name, other than those that are being written."""
    conditions = [
        qe.FieldCondition("tenant", match=qe.MatchValue(name.tenant)),
        qe.FieldCondition("names", match=qe.MatchValue(name.folded)),
    ]
    others = qe.Filter(must=[*conditions], must_not=[qe.HasIdCondition(set(besides))])
    return shard.count(qe.CountRequest(exact=True, filter=others)) > 0
