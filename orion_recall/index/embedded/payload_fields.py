"""The indexes of a shard's payload fields: each is made just before the first point with a value in its field.

Also an empty index takes some milliseconds to make and as many to load, and two files of a MiB: without holes, as
in a file system in memory, these take all of it. Most memories have values in a few of the fields. In a field
without an index no point has a value, so a condition on it never holds, and no point is looked at to say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import qdrant_edge as qe

from orion_recall.index.points import FLOAT_FIELDS, KEYWORD_FIELDS, NUMBER_FIELDS, TOLD, IndexPoint

_TYPES = qe.PayloadSchemaType
FIELD_TYPES: Final[Mapping[str, qe.PayloadSchemaType]] = {
    **dict.fromkeys(KEYWORD_FIELDS, _TYPES.Keyword),
    **dict.fromkeys(NUMBER_FIELDS, _TYPES.Integer),
    **dict.fromkeys(FLOAT_FIELDS, _TYPES.Float),
}
"""What is filtered by: the fields' paths in a payload, with the type of their values.

With a further one `metadata.FORMAT` is raised: points of an older index may have values there without an index.
"""

ALWAYS_INDEXED: Final = frozenset({"tenant"})
"""Fields that have an index in every shard: every point has a value there, and every search asks for it."""

# To make an index the engine reads the payload of every point that is there, under Python's lock: of 1,000 short
# ones in 5 ms, of 100,000 in 400, where syncing files takes no time. So a shard that has become so large gets all.
_ALL_FROM_POINTS = 2_000


def indexed_fields(shard: qe.EdgeShard) -> frozenset[str]:
    """The fields that the shard has indexes of."""
    return frozenset(shard.info().payload_schema)


def whole_fields(shard: qe.EdgeShard) -> frozenset[str]:
    """The fields that a shard just loaded has indexes of, in each of its segments.

    A process that was killed while it made one may have left it in some of them.
    """
    fields = indexed_fields(shard)
    for field in sorted(fields & FIELD_TYPES.keys()):
        add_field_index(shard, field)  # nothing is done where it is there
    return fields


def fields_to_index(points: Iterable[IndexPoint], held: int) -> frozenset[str]:
    """The fields that must have an index before these points are written; the shard holds so many with them."""
    if held >= _ALL_FROM_POINTS:
        return frozenset(FIELD_TYPES)
    found = set[str]()
    for point in points:
        found.update(point.payload)
        for told in point.payload.get(TOLD, ()):
            found.update(f"{TOLD}[].{name}" for name in told)
    return ALWAYS_INDEXED | (found & FIELD_TYPES.keys())


def add_field_index(shard: qe.EdgeShard, field: str) -> None:
    shard.update(qe.UpdateOperation.create_field_index(field, FIELD_TYPES[field]))
