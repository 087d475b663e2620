"""What becomes of a memory after it was stored: changed, replaced by another, deleted, and what is known of that.

Every step is one transaction: the history, the change, and the outbox that tells index and graph. What is asked for
again is no second step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from orion_recall.contracts import MemoryV1, describe
from orion_recall.errors import InvalidMessage
from orion_recall.memory import journey_sql as sql
from orion_recall.memory import record_sql
from orion_recall.memory.compose import as_message, compose
from orion_recall.memory.extraction_queue import queue_new
from orion_recall.postgres import POSTGRES_ERRORS, Connection, Pool, borrow, is_refusal, reason
from orion_recall.text import storable
from orion_recall.values import JsonValue, Memory

ChangeStatus = Literal["updated", "deleted", "unchanged", "missing", "conflict", "rejected"]
Step = Literal["add", "update", "merge", "supersede", "delete", "erase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What is to change of one memory: fields of `MemoryV1` by name, None for those to be cleared.

    With `expected_version` it is changed only if it is still at that version.
    """

    id: str
    changes: Mapping[str, Any]
    expected_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVerdict:
    """What became of one memory; `position` is where in the outbox index and graph are told of it."""

    id: str
    status: ChangeStatus
    reason: str | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One step: the version that it made, the memory before and after it, `at` in epoch seconds."""

    version: int
    op: Step
    at: float
    actor: str | None
    before: Mapping[str, JsonValue] | None
    after: Mapping[str, JsonValue] | None
    lineage: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class Journey:
    """Changes of memories. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool, *, extractor: str = "light") -> None:
        """`extractor` is what finds names and statements of changed memories, once they are changed."""
        self._pool, self._extractor = pool, extractor

    async def update(
        self,
        tenant: str,
        patches: Sequence[Patch],
        *,
        actor: str | None = None,
        lineage: Mapping[str, JsonValue] | None = None,
    ) -> list[ChangeVerdict]:
        """Changes memories, each judged alone, in one transaction; the verdicts in the order of the patches.

        Of several patches of one memory the first counts, and the others are conflicts.
        """
        if not patches:
            return []
        async with borrow(self._pool, "changing memories") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            return await update(
                connection, tenant, patches, actor=actor, lineage=lineage, extractor=self._extractor
            )

    async def delete(
        self,
        tenant: str,
        ids: Sequence[str],
        *,
        actor: str | None = None,
        why: str | None = None,
        erase: bool = False,
    ) -> list[ChangeVerdict]:
        """Deletes memories; one that is deleted already is `deleted` again. The verdicts in the order of the ids.

        The record keeps what they were, in the history; with `erase` neither keeps anything but that they were.
        """
        if not ids:
            return []
        async with borrow(self._pool, "deleting memories") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            return await delete(connection, tenant, ids, actor=actor, why=why, erase=erase)

    async def history(self, tenant: str, memory_id: str) -> list[HistoryStep]:
        """Every step of one memory, oldest first; none when there never was one."""
        async with borrow(self._pool, "reading a history") as connection:
            rows = await connection.fetch(sql.HISTORY, storable(tenant), storable(memory_id))
        return [
            HistoryStep(
                version=row["version"],
                op=row["op"],
                at=row["at"],
                actor=row["actor"],
                before=row["before"],
                after=row["after"],
                lineage=row["lineage"],
            )
            for row in rows
        ]


async def update(
    connection: Connection,
    tenant: str,
    patches: Sequence[Patch],
    *,
    actor: str | None = None,
    lineage: Mapping[str, JsonValue] | None = None,
    extractor: str = "light",
) -> list[ChangeVerdict]:
    """`Journey.update` in the caller's transaction and under its lock on the outbox."""
    firsts: dict[str, Patch] = {}
    for patch in patches:
        firsts.setdefault(patch.id, patch)
    held = await _read(connection, tenant, list(firsts))
    # Names and statements are found anew: not on the loop.
    judged = await asyncio.to_thread(_changed, firsts.values(), held)
    changed = {memory.id: memory for memory in judged.values() if isinstance(memory, Memory)}
    beside = await _beside(connection, tenant, changed)
    refused = await _change(connection, tenant, list(changed.values()), actor, lineage or {})
    done = [name for name in changed if name not in refused]
    await queue_new(connection, [changed[name] for name in done], extractor)
    beside += await _beside(connection, tenant, done)
    positions = await _queue(connection, tenant, done, beside)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in done])
    verdicts: list[ChangeVerdict] = []
    for patch in patches:
        if firsts[patch.id] is not patch:
            verdicts.append(_conflict(patch.id, "the same message changes it already"))
            continue
        found = judged[patch.id]
        if isinstance(found, ChangeVerdict):
            position = positions.get(patch.id) if found.status == "unchanged" else None
            verdicts.append(ChangeVerdict(id=found.id, status=found.status, reason=found.reason, position=position))
        elif patch.id in refused:
            verdicts.append(ChangeVerdict(id=patch.id, status="rejected", reason=refused[patch.id]))
        else:
            verdicts.append(ChangeVerdict(id=patch.id, status="updated", position=positions[patch.id]))
    return verdicts


async def delete(
    connection: Connection,
    tenant: str,
    ids: Sequence[str],
    *,
    actor: str | None = None,
    why: str | None = None,
    erase: bool = False,
) -> list[ChangeVerdict]:
    """`Journey.delete` in the caller's transaction and under its lock on the outbox."""
    names = list(dict.fromkeys(ids))
    held = await _read(connection, tenant, names)
    alive = [name for name, memory in held.items() if memory.deleted_at is None]
    lineage: dict[str, JsonValue] = {"reason": why} if why else {}
    positions = await _retire(connection, tenant, alive, sql.DELETE, "delete", actor, lineage)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in alive])
    if erase and held:
        # Once: a second request finds nothing that could be told apart from the first.
        full = [name for name, memory in held.items() if memory.content_hash]
        await connection.execute(sql.TELL, tenant, full, "erase", actor, lineage)
        await connection.execute(sql.ERASE, tenant, full)
        await connection.execute(sql.ERASE_HISTORY, tenant, full)
    return [
        ChangeVerdict(id=name, status="deleted", position=positions[name])
        if name in held
        else ChangeVerdict(id=name, status="missing", reason="no memory has this id")
        for name in ids
    ]


async def supersede(
    connection: Connection, tenant: str, ids: Sequence[str], by: str, *, actor: str | None = None
) -> str | None:
    """Puts one memory in the place of others, in the caller's transaction and under its lock on the outbox.

    One that was replaced or deleted before stays as it is, and so does one that has taken this one's own place:
    of a circle the last one stays. Gives what there is to say of the first that is left alone.
    """
    held = await _read(connection, tenant, ids)
    after = {row["id"] for row in await connection.fetch(sql.PLACE_TAKEN, tenant, by)}
    live = [name for name, memory in held.items() if memory.is_live and name not in after]
    lineage: dict[str, JsonValue] = {"superseded_by": by}
    await _retire(connection, tenant, live, sql.SUPERSEDE, "supersede", actor, lineage, by)
    for name in ids:
        if name not in held:
            return f"supersedes: no memory has the id {name!r}"
        if held[name].deleted_at is not None:
            return f"supersedes: {name!r} was deleted before"
        if name in after:
            return f"supersedes: {name!r} has taken this one's own place"
        if name not in live and held[name].superseded_by != by:
            return f"supersedes: {held[name].superseded_by!r} has taken the place of {name!r} before"
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
    """Takes memories out of recall: the history, the change, the outbox. Their positions by id."""
    if not ids:
        return {}
    beside = await _beside(connection, tenant, ids)
    await connection.execute(sql.TELL, tenant, list(ids), op, actor, lineage)
    await connection.execute(statement, tenant, list(ids), *values)
    return await _queue(connection, tenant, ids, beside)


async def _read(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
    rows = await connection.fetch(sql.READ, tenant, list(ids))
    return {row["id"]: record_sql.to_memory(row) for row in rows}


def _changed(patches: Iterable[Patch], held: Mapping[str, Memory]) -> dict[str, Memory | ChangeVerdict]:
    return {patch.id: _judged(patch, held.get(patch.id)) for patch in patches}


def _judged(patch: Patch, memory: Memory | None) -> Memory | ChangeVerdict:
    """The memory as it is to be, or why it stays as it is."""
    if memory is None:
        return ChangeVerdict(id=patch.id, status="missing", reason="no memory has this id")
    if memory.deleted_at is not None:
        return ChangeVerdict(id=patch.id, status="missing", reason="it was deleted")
    if memory.superseded_by is not None:
        return _conflict(patch.id, f"{memory.superseded_by!r} has taken its place: change that one")
    if patch.expected_version is not None and patch.expected_version != memory.version:
        return _conflict(
            patch.id, f"it is at version {memory.version}, not {patch.expected_version}: read it again"
        )
    try:
        changed = recompose(memory, patch.changes)
    except InvalidMessage as error:
        return ChangeVerdict(id=patch.id, status="rejected", reason=str(error))
    if changed.content_hash == memory.content_hash:
        return ChangeVerdict(id=patch.id, status="unchanged")
    return changed


def recompose(memory: Memory, changes: Mapping[str, Any]) -> Memory:
    """The memory with some fields of its message changed, and all that follows from them computed anew.

    InvalidMessage names the fields that cannot be so.
    """
    given = as_message(memory)
    whole = {name: getattr(given, name) for name in MemoryV1.model_fields}
    defaults = MemoryV1.model_fields
    for name, value in changes.items():
        whole[name] = defaults[name].get_default(call_default_factory=True) if value is None else value
    try:
        message = MemoryV1.model_validate(whole)
    except ValidationError as error:
        raise InvalidMessage(describe(error), without_values=describe(error, with_values=False)) from error
    return compose(message, memory.tenant)


async def _change(
    connection: Connection,
    tenant: str,
    memories: Sequence[Memory],
    actor: str | None,
    lineage: Mapping[str, JsonValue],
) -> dict[str, str]:
    """Writes history and change; why of those that Postgres refuses, which stay as they are."""
    if not memories:
        return {}
    names = [memory.id for memory in memories]
    try:
        async with connection.transaction():
            await connection.execute(sql.TELL, tenant, names, "update", actor, dict(lineage))
            await connection.execute(sql.CHANGE, [record_sql.to_row(memory, 0) for memory in memories])
    except POSTGRES_ERRORS as error:
        if not is_refusal(error):
            raise
        if len(memories) == 1:
            return {names[0]: reason(error)}
    else:
        return {}
    middle = len(memories) // 2
    refused = await _change(connection, tenant, memories[:middle], actor, lineage)
    return refused | await _change(connection, tenant, memories[middle:], actor, lineage)


async def _beside(connection: Connection, tenant: str, ids: Iterable[str]) -> list[str]:
    rows = await connection.fetch(sql.BESIDE, tenant, list(ids))
    return [row["id"] for row in rows]


async def _queue(connection: Connection, tenant: str, ids: Sequence[str], beside: Sequence[str]) -> dict[str, int]:
    """Tells the outbox of the memories, then of the turns beside them; the memories' positions."""
    told = list(dict.fromkeys((*ids, *beside)))
    if not told:
        return {}
    rows = await connection.fetch(sql.QUEUE, tenant, told)
    wanted = frozenset(ids)
    return {row["memory_id"]: row["position"] for row in rows if row["memory_id"] in wanted}


async def _last_positions(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    if not ids:
        return {}
    rows = await connection.fetch(sql.LAST_POSITIONS, tenant, list(ids))
    return {row["memory_id"]: row["position"] for row in rows}


def _conflict(name: str, why: str) -> ChangeVerdict:
    return ChangeVerdict(id=name, status="conflict", reason=why)
