"""Reads and writes of one shard of Qdrant Edge, for applying changes. Every call blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import qdrant_edge as qe

from orion_recall.foreground import FOREGROUND
from orion_recall.index.embedded.document_frequencies import DocumentFrequencies
from orion_recall.index.embedded.points import edge_point, further_passages_request
from orion_recall.index.passages import OF
from orion_recall.index.points import HeldName, HeldPoint, IndexPoint, Name, held_name, held_point
from orion_recall.index.write_batch import (
    WriteBatch,
)

# The engine holds Python's lock while it writes and reads vectors: small pages.
_PAGE, _PAGE_AGAIN, _PAGE_READ = 1000, 25, 10
# Some milliseconds: recalls go in between.
_PAGE_VERSIONS = 500


def read_held(shard: qe.EdgeShard, keys: Sequence[int]) -> dict[int, HeldPoint]:
    """What the shard holds of the memories, by key, with vectors."""
    records = shard.retrieve(list(keys), True, True)
    return {
        cast("int", record.id): held_point(
            cast("dict[str, Any]", record.payload), cast("Mapping[str, Any]", record.vector or {})
        )
        for record in records
    }


def read_vectors(shard: qe.EdgeShard, keys: Sequence[int]) -> dict[int, list[float]]:
    """The vectors of the memories' meaning, by key."""
    records = shard.retrieve(list(keys), False, ["dense"])
    vectors = {cast("int", record.id): cast("Mapping[str, Any]", record.vector or {}) for record in records}
    return {key: one["dense"] for key, one in vectors.items() if "dense" in one}


def read_names(shard: qe.EdgeShard, keys: Sequence[int]) -> dict[int, HeldName]:
    """What the shard holds of the entities, by key; those without a vector of their name are left out."""
    names: dict[int, HeldName] = {}
    for record in shard.retrieve(list(keys), True, True) if keys else ():
        vectors = cast("Mapping[str, Any]", record.vector or {})
        if (one := held_name(cast("dict[str, Any]", record.payload), vectors)) is not None:
            names[cast("int", record.id)] = one
    return names


_MOST_KEPT = 5000


class WriteLog:
    """The latest write of each key since a copy was made: some thousands of points, beyond them keys alone."""

    def __init__(self) -> None:
        self._points: dict[int, qe.Point | None] = {}
        self._keys: set[int] = set()

    def note(self, key: int, point: qe.Point | None) -> None:
        """The key holds this point now; None: it was deleted."""
        self._keys.discard(key)
        if point is None or key in self._points or len(self._points) < _MOST_KEPT:
            self._points[key] = point
        else:
            self._keys.add(key)

    def pages(self, live: qe.EdgeShard) -> Iterator[tuple[list[qe.PointId], list[qe.Point]]]:
        """Keys to delete and points to write, a page at a time: each page is written under Python's lock."""
        noted = [*self._points.items()]
        for start in range(0, len(noted), _PAGE_AGAIN):
            page = noted[start : start + _PAGE_AGAIN]
            yield [key for key, one in page if one is None], [one for _, one in page if one is not None]
        keys: list[qe.PointId] = [*self._keys]
        for start in range(0, len(keys), _PAGE_READ):
            records = live.retrieve(keys[start : start + _PAGE_READ], True, True)
            yield [], [qe.Point(one.id, one.vector or {}, one.payload) for one in records]


def write(
    shard: qe.EdgeShard, batch: WriteBatch, frequencies: DocumentFrequencies, log: WriteLog | None = None
) -> None:
    """Writes the batch, and notes it in `log`. Entities first: a retry still finds which names were dropped."""
    about = [*batch.gone, *(point.key for point in batch.points)]
    forgotten = [name.key for name in batch.forgotten if not _is_in_use(shard, name, about)]
    written = {point.key for point in batch.points}
    former = [key for key in _further_passages(shard, batch.replaced) if key not in written]
    gone = [*forgotten, *batch.gone, *former]
    with frequencies.written(shard, gone, batch.points):
        _write(shard, gone, batch.points, log)


def _write(shard: qe.EdgeShard, gone: Sequence[int], points: Sequence[IndexPoint], log: WriteLog | None) -> None:
    if gone:
        shard.update(qe.UpdateOperation.delete_points([*gone]))
        if log is not None:
            for key in gone:
                log.note(key, None)
    for start in range(0, len(points), _PAGE_AGAIN):
        FOREGROUND.yield_to_foreground()
        page = {one.key: edge_point(one) for one in points[start : start + _PAGE_AGAIN]}
        shard.update(qe.UpdateOperation.upsert_points([*page.values()]))
        if log is not None:
            for key, point in page.items():
                log.note(key, point)


def replay(copy: qe.EdgeShard, log: WriteLog, live: qe.EdgeShard) -> None:
    """Writes to a copy what was written to the live shard since the copy was made."""
    for gone, points in log.pages(live):
        if gone:
            copy.update(qe.UpdateOperation.delete_points(gone))
        if points:
            copy.update(qe.UpdateOperation.upsert_points(points))


def read_versions(shard: qe.EdgeShard, after: qe.PointId | None) -> tuple[dict[int, int], qe.PointId | None]:
    """The versions of a page of the memories in the shard, by key, and where the next one begins, if any does."""
    request = qe.ScrollRequest(offset=after, limit=_PAGE_VERSIONS, with_payload=["version"], with_vector=False)
    records, following = shard.scroll(request)
    payloads = ((cast("int", one.id), cast("Mapping[str, Any]", one.payload or {})) for one in records)
    # An entity has none.
    return {key: int(payload["version"]) for key, payload in payloads if "version" in payload}, following


def has_values(shard: qe.EdgeShard, field: str) -> bool:
    """Whether any point in the shard has a value in the field, which is an indexed one."""
    indexed = shard.info().payload_schema.get(field)
    return indexed is not None and indexed.points > 0


def _further_passages(shard: qe.EdgeShard, keys: Sequence[int]) -> list[int]:
    found: list[int] = []
    offset: Any = None
    while keys and (offset is not None or has_values(shard, OF)):
        records, offset = shard.scroll(further_passages_request(keys, _PAGE, offset))
        found += [cast("int", record.id) for record in records]
        if offset is None:
            break
    return found


def _is_in_use(shard: qe.EdgeShard, name: Name, batch_keys: Sequence[int]) -> bool:
    conditions = [
        qe.FieldCondition("tenant", match=qe.MatchValue(name.tenant)),
        qe.FieldCondition("names", match=qe.MatchValue(name.folded)),
    ]
    others = qe.Filter(must=[*conditions], must_not=[qe.HasIdCondition(set(batch_keys))])
    # One is enough: to count them takes as long as a common name is common.
    records, _ = shard.scroll(qe.ScrollRequest(filter=others, limit=1, with_payload=False, with_vector=False))
    return bool(records)
