"""The fields of stream entries as they come from the bus: of an entry with very many the first thousand are read.

A message is one field. The driver would make an object of a million of them at once, which takes the event loop for
longer than a recall takes. What is parsed before that is parsed as its bytes come, with other work in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

MOST_FIELDS = 1000


class CutFields(dict[bytes, bytes]):
    """The first fields of an entry. `left_out` is the number of the others."""

    left_out: int = 0


def bound_fields(redis: Redis) -> Redis:
    """The client, which from now on reads no more than `MOST_FIELDS` fields of an entry that a group is given."""
    redis.set_response_callback("XREADGROUP", _read_group)  # pyright: ignore[reportUnknownMemberType]
    redis.set_response_callback("XAUTOCLAIM", _claimed)  # pyright: ignore[reportUnknownMemberType]
    return redis


def _read_group(response: Any, **_: Any) -> Any:
    return [[stream, _entries(rows)] for stream, rows in response or ()]


def _claimed(response: Any, **options: Any) -> Any:
    if options.get("parse_justid"):
        return response[1]
    return [response[0], _entries(response[1]), *response[2:]]


def _entries(rows: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Ids with fields; None for an entry that was deleted, as the driver has it."""
    return [(None, None) if row is None else (row[0], None if row[1] is None else _fields(row[1])) for row in rows]


def _fields(pairs: Sequence[bytes]) -> CutFields:
    first = pairs[: 2 * MOST_FIELDS]
    fields = CutFields(zip(first[::2], first[1::2], strict=True))
    fields.left_out = (len(pairs) - len(first)) // 2
    return fields
