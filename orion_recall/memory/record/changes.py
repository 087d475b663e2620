"""Changes of stored memories: update, supersede, delete, erase, and the history of one memory.

Every step is one transaction: history, change and outbox. A repeated request makes no second step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orion_recall.foreground import FOREGROUND
from orion_recall.memory.record import sql, successions
from orion_recall.memory.record.compose import ChangeVerdict, Patch, conflict, judged
from orion_recall.memory.record.extraction_queue import queue_following, queue_new
from orion_recall.postgres.pool import POSTGRES_ERRORS, Connection, Pool, borrow, is_refusal, reason
from orion_recall.text.normal import storable
from orion_recall.values import JsonValue, Memory

Step = Literal["add", "update", "merge", "supersede", "delete", "erase"]
# About five milliseconds of composing.
_AT_A_TIME = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One step of a history: the version it made, the memory before and after it, `at` in epoch seconds."""

    version: int
    op: Step
    at: float
    actor: str | None
    before: Mapping[str, JsonValue] | None
    after: Mapping[str, JsonValue] | None
    lineage: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


async def history(pool: Pool, tenant: str, memory_id: str) -> list[HistoryStep]:
    """Every step of one memory, oldest first; none for an unknown id. RecordError while Postgres is away."""
    async with borrow(pool, "reading a history") as connection:
        rows = await connection.fetch(sql.HISTORY, storable(tenant), storable(memory_id))
    return [HistoryStep(**dict(row)) for row in rows]


async def update(
    connection: Connection,
    tenant: str,
    patches: Sequence[Patch],
    *,
    actor: str | None = None,
    extractor: str = "light",
) -> list[ChangeVerdict]:
    """Updates memories, each judged alone; verdicts in the order of the patches.

    In the caller's transaction and under its lock on the outbox. Of several patches of one memory the first counts.
    """
    firsts = {patch.id: patch for patch in reversed(patches)}
    held = await _read(connection, tenant, list(firsts))
    found = await asyncio.to_thread(_judged, list(firsts.values()), held)
    changed = {memory.id: memory for memory in found.values() if isinstance(memory, Memory)}
    neighbours = await _neighbours(connection, tenant, changed)
    await queue_following(connection, tenant, list(changed))
    refused = await _change(connection, tenant, list(changed.values()), actor)
    done = [name for name in changed if name not in refused]
    await queue_new(connection, [changed[name] for name in done], extractor)
    neighbours += await _neighbours(connection, tenant, done)
    positions = await _enqueue(connection, tenant, done, neighbours)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in done])
    verdicts: list[ChangeVerdict] = []
    for patch in patches:
        one = found[patch.id]
        if firsts[patch.id] is not patch:
            verdicts.append(conflict(patch.id, "the same message changes it already"))
        elif isinstance(one, ChangeVerdict):
            position = positions.get(patch.id) if one.status == "unchanged" else None
            verdicts.append(replace(one, position=position))
        elif patch.id in refused:
            verdicts.append(ChangeVerdict(id=patch.id, status="rejected", reason=refused[patch.id]))
        else:
            verdicts.append(ChangeVerdict(id=patch.id, status="updated", position=positions[patch.id]))
    return verdicts


def _judged(patches: Sequence[Patch], held: Mapping[str, Memory]) -> dict[str, Memory | ChangeVerdict]:
    return {patch.id: judged(patch, held.get(patch.id)) for patch in FOREGROUND.throttled(patches, _AT_A_TIME)}


async def delete(
    connection: Connection,
    tenant: str,
    ids: Sequence[str],
    *,
    actor: str | None = None,
    why: str | None = None,
    erase: bool = False,
) -> list[ChangeVerdict]:
    """Deletes memories; a deleted one is `deleted` again. With `erase` only their ids and steps are kept.

    In the caller's transaction and under its lock on the outbox.
    """
    names = list(dict.fromkeys(ids))
    held = await _read(connection, tenant, names)
    alive = [name for name, memory in held.items() if memory.deleted_at is None]
    lineage: dict[str, JsonValue] = {"reason": why} if why else {}
    positions = await _retire(connection, tenant, alive, sql.DELETE, "delete", actor, lineage)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in alive])
    if erase and held:
        # Once: a second request finds nothing left to erase.
        full = [name for name, memory in held.items() if memory.content_hash]
        await connection.execute(sql.ADD_HISTORY, tenant, full, "erase", actor, lineage)
        await connection.execute(sql.ERASE, tenant, full)
        await connection.execute(sql.ERASE_HISTORY, tenant, full)
        await connection.execute(successions.ERASE, tenant, full)
        await connection.execute(successions.ERASE_FORMER, tenant, full)
    return [
        ChangeVerdict(id=name, status="deleted", position=positions[name])
        if name in held
        else ChangeVerdict(id=name, status="missing", reason="no memory has this id")
        for name in ids
    ]


async def supersede(
    connection: Connection, tenant: str, ids: Sequence[str], by: str, *, actor: str | None = None
) -> str | None:
    """Supersedes memories by another one, in the caller's transaction and under its lock on the outbox.

    Memories that are superseded or deleted already are left alone, and so are those that superseded this one: of a
    circle the last one stays. Gives the reason for the first that is left alone.
    """
    held = await _read(connection, tenant, ids)
    after = {row["id"] for row in await connection.fetch(sql.SUPERSEDED_BY, tenant, by)}
    live = [name for name, memory in held.items() if memory.is_live and name not in after]
    lineage: dict[str, JsonValue] = {"superseded_by": by}
    await _retire(connection, tenant, live, sql.SUPERSEDE, "supersede", actor, lineage, by)
    await successions.inherit(connection, tenant, live, by)
    for name in ids:
        if name not in held:
            return f"supersedes: no memory has the id {name!r}"
        if held[name].deleted_at is not None:
            return f"supersedes: {name!r} was deleted before"
        if name in after:
            return f"supersedes: {name!r} supersedes this one itself"
        if name not in live and held[name].superseded_by != by:
            return f"supersedes: {held[name].superseded_by!r} supersedes {name!r} already"
    return None


async def _retire(
    connection: Connection,
    tenant: str,
    ids: Sequence[str],
    statement: Any,
    op: Step,
    actor: str | None,
    lineage: Mapping[str, JsonValue],
    *values: str,
) -> dict[str, int]:
    if not ids:
        return {}
    neighbours = await _neighbours(connection, tenant, ids)
    # A copy holds with a memory what succeeds it.
    neighbours += [row["id"] for row in await connection.fetch(successions.OTHER_ENDS, tenant, list(ids))]
    await queue_following(connection, tenant, ids)
    await connection.execute(sql.ADD_HISTORY, tenant, list(ids), op, actor, lineage)
    await connection.execute(statement, tenant, list(ids), *values)
    return await _enqueue(connection, tenant, ids, neighbours)


async def _read(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
    rows = await connection.fetch(sql.READ, tenant, list(ids))
    return {row["id"]: sql.to_memory(row) for row in rows}


async def _change(
    connection: Connection, tenant: str, memories: Sequence[Memory], actor: str | None
) -> dict[str, str]:
    if not memories:
        return {}
    names = [memory.id for memory in memories]
    try:
        async with connection.transaction():
            await connection.execute(sql.ADD_HISTORY, tenant, names, "update", actor, {})
            await connection.execute(sql.CHANGE, [sql.to_row(memory, 0) for memory in memories])
    except POSTGRES_ERRORS as error:
        if not is_refusal(error):
            raise
        if len(memories) == 1:
            return {names[0]: reason(error)}
    else:
        return {}
    middle = len(memories) // 2
    refused = await _change(connection, tenant, memories[:middle], actor)
    return refused | await _change(connection, tenant, memories[middle:], actor)


async def _neighbours(connection: Connection, tenant: str, ids: Iterable[str]) -> list[str]:
    rows = await connection.fetch(sql.NEIGHBOURS, tenant, list(ids))
    return [row["id"] for row in rows]


async def _enqueue(
    connection: Connection, tenant: str, ids: Sequence[str], neighbours: Sequence[str]
) -> dict[str, int]:
    queued = list(dict.fromkeys((*ids, *neighbours)))
    if not queued:
        return {}
    rows = await connection.fetch(sql.ENQUEUE, tenant, queued)
    wanted = frozenset(ids)
    return {row["memory_id"]: row["position"] for row in rows if row["memory_id"] in wanted}


async def _last_positions(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    if not ids:
        return {}
    rows = await connection.fetch(sql.LAST_POSITIONS, tenant, list(ids))
    return {row["memory_id"]: row["position"] for row in rows}
