"""What is written to a shard of Qdrant Edge, and what has to be read for it. Everything here blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import qdrant_edge as qe

from orion_recall.sources.edge_points import edge_point
from orion_recall.sources.points import HeldName, HeldPoint, IndexStep, Name, held_name, held_point

_PAGE, _PAGE_AGAIN = 1000, 50


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


Written = dict[int, qe.Point | None]
"""What was written last under a key; None: it was taken out."""


def carry_out(shard: qe.EdgeShard, step: IndexStep) -> Written:
    """Does the step. Names first: until the memories are written, a second try finds what they gave."""
    about = [*step.gone, *(point.key for point in step.points)]
    forgotten = [name.key for name in step.forgotten if not _is_given(shard, name, about)]
    gone: list[qe.PointId] = [*forgotten, *step.gone]
    if gone:
        shard.update(qe.UpdateOperation.delete_points(gone))
    points = {one.key: edge_point(one) for one in step.points}
    if points:
        shard.update(qe.UpdateOperation.upsert_points([*points.values()]))
    written: Written = dict.fromkeys((*forgotten, *step.gone))
    return written | points


def write_again(shard: qe.EdgeShard, written: Written) -> None:
    """Makes a copy hold what was written elsewhere since it was made, a page at a time."""
    keys = [*written]
    for start in range(0, len(keys), _PAGE_AGAIN):
        page = {key: written[key] for key in keys[start : start + _PAGE_AGAIN]}
        if gone := [key for key, point in page.items() if point is None]:
            shard.update(qe.UpdateOperation.delete_points([*gone]))
        if points := [point for point in page.values() if point is not None]:
            shard.update(qe.UpdateOperation.upsert_points(points))


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
