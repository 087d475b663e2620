"""Conditions of `MemoryWhereV1` as SQL. Every value is a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orion_recall.contracts import MemoryWhereV1
from orion_recall.errors import InvalidMessage
from orion_recall.postgres.pool import Connection
from orion_recall.text.normal import storable

_EQUAL = ("session_id", "user_id", "agent_id", "run_id", "speaker", "source")
_WORDS = "plainto_tsquery('english', {})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The number of matches, and the ids of the first of them, in the order in which they were stored."""

    count: int
    ids: tuple[str, ...]


async def matching(connection: Connection, tenant: str, where: MemoryWhereV1, limit: int) -> Matched:
    """The live memories of the tenant that meet every condition; InvalidMessage for a text without words."""
    if where.text is not None:
        nodes = await connection.fetchval(f"SELECT numnode({_WORDS.format('$1::text')})", storable(where.text))
        if not nodes:
            raise InvalidMessage("payload.where.text: it has no word that can be searched for")
    condition, values = conditions(tenant, where)
    count = await connection.fetchval(
        f"SELECT count(*) FROM memories WHERE {condition}",  # noqa: S608 (fixed columns; values are parameters)
        *values,
    )
    found = await connection.fetch(
        f"SELECT id FROM memories WHERE {condition} ORDER BY seq LIMIT ${len(values) + 1}",  # noqa: S608 (the same)
        *values,
        limit,
    )
    return Matched(count=count, ids=tuple(row["id"] for row in found))


def conditions(tenant: str, where: MemoryWhereV1) -> tuple[str, Sequence[object]]:
    """The condition, and the values of its parameters."""
    parts: list[tuple[str, object]] = [("tenant = {}", storable(tenant))]
    parts += [(f"{name} = {{}}", storable(value)) for name in _EQUAL if (value := getattr(where, name)) is not None]
    lists = (("kind = ANY({}::text[])", where.kinds), ("tags && {}::text[]", where.tags),
             ("entities && {}::text[]", where.entities))  # fmt: skip
    parts += [(condition, [storable(one) for one in values]) for condition, values in lists if values]
    if where.text is not None:
        parts.append((f"search @@ {_WORDS.format('{}::text')}", storable(where.text)))
    if where.since is not None:
        parts.append(("ts >= {}::timestamptz", where.since))
    if where.until is not None:
        parts.append(("ts < {}::timestamptz", where.until))
    said = [condition.format(f"${place}") for place, (condition, _) in enumerate(parts, 1)]
    return " AND ".join((*said, "live")), [value for _, value in parts]
