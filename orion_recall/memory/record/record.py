"""The record: memories in Postgres, their changes and history, and the outbox that index and graph follow.

Every step is one transaction: history, change and outbox. A repeated request makes no second step. It is read
here apart from recalls: lists and searches, conditions of messages, the whole in pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple

from orion_recall.contracts import MemoryVerdictV1, MemoryWhereV1
from orion_recall.errors import InvalidMessage, RecordError
from orion_recall.foreground import FOREGROUND
from orion_recall.memory.record import sql, successions
from orion_recall.memory.record.aliases import as_changes
from orion_recall.memory.record.compose import Patch, as_message, conflict, judged
from orion_recall.memory.record.extraction_queue import queue_new, queue_readers
from orion_recall.postgres.pool import (
    POSTGRES_ERRORS,
    Connection,
    Pool,
    Row,
    borrow,
    close_connection,
    fetched,
    is_refusal,
    open_connection,
    reason,
    sqlstate,
    translate,
)
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Change, JsonValue, Memory

_Key = tuple[str, str]

# Six missed heartbeats.
GONE_AFTER_S = 120.0
# About five milliseconds of composing.
_AT_A_TIME = 4
Step = Literal["add", "update", "merge", "supersede", "delete", "erase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResult:
    """The verdicts in the order of the memories, and the position at which those stored or unchanged are projected.

    `superseded`: tenant and id of those whose place they have taken, now or when they were stored before.
    """

    verdicts: tuple[MemoryVerdictV1, ...]
    position: int | None
    superseded: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPosition:
    """The position of a copy of index or graph, and its last heartbeat, `updated_at` in epoch seconds."""

    copy: str
    kind: str
    position: int
    updated_at: float
    silent_s: float = 0.0

    @property
    def is_gone(self) -> bool:
        """Whether its worker seems to be gone: a worker gives a heartbeat every twenty seconds."""
        return self.silent_s > GONE_AFTER_S


_EQUAL = ("session_id", "user_id", "agent_id", "run_id", "speaker", "source")
_LISTS = {"kinds": "kind = ANY({}::text[])", "tags": "tags && {}::text[]", "entities": "entities && {}::text[]"}
_PLAIN_WORDS = "plainto_tsquery('english', {})"


async def matching(connection: Connection, tenant: str, where: MemoryWhereV1, limit: int) -> tuple[int, list[str]]:
    """How many live memories of the tenant meet every condition, and the first ids in the order of arrival."""
    if where.text is not None:
        nodes = await connection.fetchval(
            f"SELECT numnode({_PLAIN_WORDS.format('$1::text')})", storable(where.text)
        )
        if not nodes:
            raise InvalidMessage("payload.where.text: it has no word that can be searched for")
    condition, values = conditions(tenant, where)
    matching = f"FROM memories WHERE {condition}"
    count = await connection.fetchval(f"SELECT count(*) {matching}", *values)
    ids = f"SELECT id {matching} ORDER BY seq LIMIT ${len(values) + 1}"
    return count, [row["id"] for row in await connection.fetch(ids, *values, limit)]


def conditions(tenant: str | None, where: MemoryWhereV1 | None) -> tuple[str, Sequence[object]]:
    """The condition on live memories, and its values; without a tenant on those of all."""
    parts: list[tuple[str, object]] = [] if tenant is None else [("tenant = {}", storable(tenant))]
    given = {name: getattr(where, name, None) for name in _EQUAL}
    parts += [(f"{name} = {{}}", storable(value)) for name, value in given.items() if value is not None]
    for name, condition in _LISTS.items():
        if values := getattr(where, name, None):
            parts.append((condition, [storable(one) for one in values]))
    if where is not None and where.text is not None:
        parts.append((f"search @@ {_PLAIN_WORDS.format('{}::text')}", storable(where.text)))
    for name, condition in (("since", "ts >= {}::timestamptz"), ("until", "ts < {}::timestamptz")):
        if (value := getattr(where, name, None)) is not None:
            parts.append((condition, value))
    said = [condition.format(f"${place}") for place, (condition, _) in enumerate(parts, 1)]
    return " AND ".join((*said, "live")), [value for _, value in parts]


_LISTED: LiteralString = (
    "id, text, kind, title, speaker, session_id, user_id, tags, version, coalesce(ts, recorded_at) AS at, "
    "ts IS NOT NULL AS is_dated, recorded_at, seq"
)
# Two parts, so that the dated one is read by the index on time.
_NEWEST = """
SELECT * FROM (
    (SELECT {columns} FROM memories WHERE {condition} AND ts IS NOT NULL ORDER BY ts DESC, seq DESC LIMIT {limit})
    UNION ALL
    (SELECT {columns} FROM memories WHERE {condition} AND ts IS NULL ORDER BY recorded_at DESC, seq DESC
     LIMIT {limit})
) AS both_parts ORDER BY at DESC, seq DESC LIMIT {limit}
"""
_QUERY = "websearch_to_tsquery('english', {words}::text)"
_SEARCH = """
SELECT {columns}, ts_rank_cd(search, query)::float8 AS score,
    CASE WHEN length(text) <= 240 THEN text ELSE ts_headline(
        'english', text, query, 'StartSel="", StopSel="", MaxFragments=2, MaxWords=24, MinWords=12'
    ) END AS passage
FROM memories, {query} AS query
WHERE {condition} AND search @@ query ORDER BY score DESC, at DESC, seq DESC LIMIT {limit}
"""
_DETAILS: LiteralString = """
SELECT m.*,
    (SELECT count(*) FROM memory_history h WHERE h.tenant = m.tenant AND h.memory_id = m.id) AS steps,
    ARRAY(
        SELECT r.id FROM memories r WHERE r.tenant = m.tenant AND r.superseded_by = m.id ORDER BY r.seq
    ) AS replaced,
    coalesce(a.count, 0) AS accesses, a.last_at AS accessed_at, e.extractor AS extraction_due,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.used)) AS used,
    (SELECT count(*) FROM recall_feedback f WHERE f.tenant = m.tenant AND m.id = ANY(f.wrong)) AS wrong
FROM memories m
LEFT JOIN memory_access a ON a.tenant = m.tenant AND a.id = m.id
LEFT JOIN memory_extractions e ON e.tenant = m.tenant AND e.memory_id = m.id
WHERE m.tenant = $1 AND m.id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """One row of a list. `at` is when it happened, else when it was mentioned, else (not dated) stored."""

    id: str
    at: datetime
    is_dated: bool
    recorded_at: datetime
    text: str
    kind: str
    title: str | None
    speaker: str | None
    session_id: str | None
    user_id: str | None
    tags: Sequence[str]
    version: int
    score: float | None = None
    passage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetails:
    """Everything that the record holds about a memory, live or not."""

    memory: Memory
    recorded_at: datetime
    updated_at: datetime | None
    steps: int
    replaced: Sequence[str]
    accesses: int
    accessed_at: datetime | None
    used: int
    wrong: int
    extraction_due: str | None


def _listed(rows: Sequence[Row]) -> list[ListedMemory]:
    return [ListedMemory(**{name: value for name, value in row.items() if name != "seq"}) for row in rows]


_PAGE = 1000
_STATES: LiteralString = """
SELECT m.tenant, m.id, m.version, m.live, o.memory_id IS NOT NULL AS in_flight
FROM memories m
LEFT JOIN (SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1) AS o
    ON o.tenant = m.tenant AND o.memory_id = m.id
"""
_QUEUED_AFTER: LiteralString = "SELECT DISTINCT tenant, memory_id FROM outbox WHERE position > $1"


class MemoryName(NamedTuple):
    """The tenant and id of a memory."""

    tenant: str
    id: str


class Record:
    """The memories of all tenants. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool, *, extractor: str = "light") -> None:
        self._pool, self._extractor = pool, extractor

    async def store(self, memories: Sequence[Memory]) -> StoreResult:
        """Stores a batch in one transaction; a memory that is stored with the same id and content is unchanged.

        A memory that Postgres refuses is rejected alone. The neighbours of a new one are queued again after it: the
        copies hold what is next to them.
        """
        if not memories:
            return StoreResult(verdicts=(), position=None)
        stored: set[_Key] = set()
        unknown: dict[_Key, str] = {}
        async with borrow(self._pool, "storing memories") as connection, connection.transaction():

            async def insert(some: Sequence[Memory]) -> None:
                stored.update(map(_key, await connection.fetch(sql.STORE, [sql.to_row(one) for one in some])))

            # Held until the commit is visible: positions never become visible out of order.
            await connection.execute(sql.LOCK_OUTBOX)
            refused = await _each_refused_alone(connection, memories, insert)
            kept = [memory for index, memory in enumerate(memories) if index not in refused]
            given = [one.tenant for one in kept], [one.id for one in kept]
            held = {_key(row): row for row in await connection.fetch(sql.HELD, *given)}
            new = [one for one in kept if (one.tenant, one.id) in stored]
            for one in new:
                if one.supersedes and (left_alone := await supersede(connection, one)) is not None:
                    unknown[one.tenant, one.id] = left_alone
            pairs = [(one.tenant, name, one.id) for one in kept for name in one.supersedes]
            columns = [list(column) for column in zip(*pairs, strict=True)]
            gone = await connection.fetch(sql.SUPERSEDED, *columns) if pairs else []
            await queue_new(connection, new, self._extractor)
        return _judge(memories, stored, held, refused, unknown, {_key(row): row["position"] for row in gone})

    async def changes(self, after: int, limit: int) -> list[Change]:
        """The outbox after a position, in order, each memory with its neighbours as they are now."""
        async with borrow(self._pool, "reading changes") as connection:
            rows = await connection.fetch(sql.CHANGES, after, limit)
            return await as_changes(connection, rows)

    async def head(self) -> int:
        """The last position of the outbox; 0 when nothing was ever stored."""
        async with borrow(self._pool, "reading the outbox") as connection:
            return int(await connection.fetchval(sql.HEAD))

    async def database_identity(self) -> str:
        """The database identity: when the schema was made, UTC. Copies keep it, and refuse every other database."""
        async with borrow(self._pool, "reading the database identity") as connection:
            return _identity_in(await connection.fetchval(sql.DATABASE_IDENTITY))

    async def report_position(self, copy: str, kind: str, position: int) -> None:
        """Stores the position of a copy, and its heartbeat; a copy that is rebuilt reports from 0."""
        await fetched(self._pool, "reporting a position", sql.REPORT_POSITION, copy, kind, position)

    async def heartbeat(self, copy: str, kind: str) -> None:
        await fetched(self._pool, "storing a heartbeat", sql.HEARTBEAT, copy, kind)

    async def leave(self, copy: str) -> None:
        """Says that nobody searches the copy any more: it counts as gone at once, until it reports again."""
        await fetched(self._pool, "leaving a copy", sql.LEAVE, copy, GONE_AFTER_S + 1)

    async def forget(self, copy: str, *, silent_s: float = GONE_AFTER_S) -> list[str]:
        """Unregisters a copy without heartbeats for so long; its kinds, none while it has some."""
        rows = await fetched(self._pool, "forgetting a copy", sql.FORGET, copy, silent_s)
        return [row["kind"] for row in rows]

    async def copies(self) -> list[CopyPosition]:
        return [CopyPosition(**dict(row)) for row in await fetched(self._pool, "reading positions", sql.COPIES)]

    async def touch(self, tenant: str, ids: Sequence[str]) -> None:
        """Counts one access of each of the ids, and one more for each time an id is repeated."""
        await fetched(self._pool, "counting accesses", sql.TOUCH, tenant, list(ids))

    async def get(self, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories by id; ids that the record does not hold are left out."""
        given = storable(tenant), [storable(name) for name in ids]
        rows = await fetched(self._pool, "reading memories", sql.GET, *given)
        return {row["id"]: sql.to_memory(row) for row in rows}

    async def newest(self, tenant: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories that meet the conditions, newest first."""
        condition, values = conditions(tenant, where)
        query = _NEWEST.format(columns=_LISTED, condition=condition, limit=f"${len(values) + 1}")
        return _listed(await fetched(self._pool, "listing memories", query, *values, limit))

    async def search(self, tenant: str, words: str, where: MemoryWhereV1 | None, limit: int) -> list[ListedMemory]:
        """The live memories with all words in title, speaker or text, best first; of equal ones the newest.

        English word forms match each other; "a phrase", `or` and `-word` are understood.
        """
        condition, values = conditions(tenant, where)
        asked = _QUERY.format(words=f"${len(values) + 1}")
        query = _SEARCH.format(columns=_LISTED, condition=condition, query=asked, limit=f"${len(values) + 2}")
        counted = f"SELECT numnode({_QUERY.format(words='$1')})"
        try:
            async with borrow(self._pool, "searching memories") as connection:
                if not await connection.fetchval(counted, storable(words)):
                    known = "only such as 'the' and 'of'"
                    raise InvalidMessage(f"{words[:80]!r} has no word that can be searched for, {known}")
                rows = await connection.fetch(query, *values, storable(words), limit)
        except RecordError as error:
            cause = error.__cause__
            # An internal error is what Postgres calls too many operators in a row.
            if cause is not None and (is_refusal(cause) or sqlstate(cause) == "XX000"):
                raise InvalidMessage(f"{words[:80]!r}… cannot be searched for: write fewer words") from error
            raise
        return _listed(rows)

    async def details(self, tenant: str, memory_id: str) -> MemoryDetails | None:
        """Everything about one memory, None when there never was one."""
        rows = await fetched(self._pool, "reading a memory", _DETAILS, storable(tenant), storable(memory_id))
        others = [one.name for one in fields(MemoryDetails) if one.name != "memory"]
        found = [MemoryDetails(memory=sql.to_memory(row), **{name: row[name] for name in others}) for row in rows]
        return next(iter(found), None)

    def states(self, position: int) -> AsyncGenerator[list[Row]]:
        """Every memory, in pages, for a copy at that position of the outbox. One snapshot.

        Rows of tenant, id, version, whether it is live, and whether it is in flight: in the outbox after it.
        """
        return self._pages("comparing with the record", _STATES, position)

    async def changes_of(self, names: Sequence[MemoryName], position: int) -> list[Change]:
        """The memories as they are now, with their neighbours, as changes at that position."""
        tenants, ids = [name.tenant for name in names], [name.id for name in names]
        async with borrow(self._pool, "reading memories") as connection:
            rows = await connection.fetch(sql.CHANGES_OF, tenants, ids, position)
            return await as_changes(connection, rows)

    async def queued_after(self, position: int) -> frozenset[int]:
        """The keys of the memories in the outbox after that position."""
        rows = await fetched(self._pool, "reading the outbox", _QUEUED_AFTER, position)
        return frozenset(memory_key(row["tenant"], row["memory_id"]) for row in rows)

    async def exported(self, tenant: str | None, where: MemoryWhereV1 | None) -> AsyncGenerator[list[str]]:
        """The live memories that meet the conditions, one JSON object a line, in pages. One snapshot."""
        condition, values = conditions(tenant, where)
        query = f"SELECT * FROM memories WHERE {condition} ORDER BY seq"  # noqa: S608 (fixed columns)
        async with aclosing(self._pages("exporting memories", query, *values)) as pages:
            async for rows in pages:
                given = [as_message(sql.to_memory(row)) for row in rows]
                told = [one.model_dump(mode="json", exclude_defaults=True) for one in given]
                yield [json.dumps(one, ensure_ascii=False) for one in told]

    async def count(self, tenant: str | None = None, where: MemoryWhereV1 | None = None) -> int:
        """How many live memories meet the conditions."""
        condition, values = conditions(tenant, where)
        query = f"SELECT count(*) FROM memories WHERE {condition}"  # noqa: S608 (fixed columns)
        ((count,),) = await fetched(self._pool, "counting memories", query, *values)
        return int(count)

    async def _pages(self, doing: str, query: str, *values: Any) -> AsyncGenerator[list[Row]]:
        async with (
            borrow(self._pool, doing) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            cursor = await (await connection.prepare(query)).cursor(*values)
            while rows := await cursor.fetch(_PAGE):
                yield rows


_MOST_IDS, _MOST_WAITING = 50, 100_000
_FLUSH_EVERY_S = 2.0


class AccessCounts:
    """Collects accesses and writes them every two seconds; counts that cannot be written are dropped."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: dict[str, list[str]] = defaultdict(list)

    def note(self, tenant: str, ids: Sequence[str]) -> None:
        waiting = self._waiting[tenant]
        if len(waiting) < _MOST_WAITING:
            waiting.extend(ids[:_MOST_IDS])

    async def run(self) -> None:
        """Writes until cancelled, and once more then, if the record answers."""
        try:
            while True:
                await asyncio.sleep(_FLUSH_EVERY_S)
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_EVERY_S):
                    await self.flush()

    async def flush(self) -> None:
        waiting, self._waiting = self._waiting, defaultdict(list)
        for tenant, ids in waiting.items():
            try:
                await self._record.touch(tenant, ids)
            except RecordError:
                return


async def database_identity_at(dsn: str) -> str:
    """The database identity at an address, over a connection of its own; RecordError as the method's."""
    connection = await open_connection(dsn, name="mark", statement_timeout_ms=2000)
    try:
        with translate("reading the database identity"):
            return _identity_in(await connection.fetchval(sql.DATABASE_IDENTITY))
    finally:
        await close_connection(connection)


def _identity_in(value: str | None) -> str:
    if value is None:
        raise RecordError("reading the database identity: the schema is not there yet: run `orion-recall migrate`")
    return value


async def _each_refused_alone(
    connection: Connection,
    memories: Sequence[Memory],
    write: Callable[[Sequence[Memory]], Awaitable[None]],
    first: int = 0,
) -> dict[int, str]:
    """Writes the memories; a batch that is refused is halved until the bad ones stand alone: why, by index."""
    try:
        async with connection.transaction():
            await write(memories)
            return {}
    except POSTGRES_ERRORS as error:
        if not is_refusal(error):
            raise
        if len(memories) == 1:
            return {first: reason(error)}
    middle = len(memories) // 2
    refused = await _each_refused_alone(connection, memories[:middle], write, first)
    return refused | await _each_refused_alone(connection, memories[middle:], write, first + middle)


def _key(row: Row) -> _Key:
    return row["tenant"], row["id"]


def _judge(
    memories: Sequence[Memory],
    stored: set[_Key],
    held: dict[_Key, Row],
    refused: dict[int, str],
    unknown: dict[_Key, str],
    superseded: dict[_Key, int],
) -> StoreResult:
    """Of equal ids in one batch the first one is stored, and the others are judged against it."""
    verdicts: list[MemoryVerdictV1] = []
    positions = list(superseded.values())
    unclaimed = set(stored)
    for index, memory in enumerate(memories):
        key, why = (memory.tenant, memory.id), None
        status: Literal["stored", "unchanged", "conflict", "rejected"] = "conflict"
        if index in refused:
            status, why = "rejected", refused[index]
        elif held[key]["deleted"]:
            why = "the memory of this id was deleted, and a deleted memory never comes back: take another id"
        elif held[key]["content_hash"] != memory.content_hash:
            why = "the id holds other content: update it (memory.update.v1), or take another id"
        else:
            status = "unchanged"
            if key in unclaimed:
                status, why = "stored", unknown.get(key)
                unclaimed.discard(key)
            positions.append(held[key]["position"])
        verdicts.append(MemoryVerdictV1(id=memory.id, status=status, reason=why))
    return StoreResult(
        verdicts=tuple(verdicts), position=max(positions, default=None), superseded=frozenset(superseded)
    )


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
    rows = await fetched(pool, "reading a history", sql.HISTORY, storable(tenant), storable(memory_id))
    return [HistoryStep(**dict(row)) for row in rows]


async def update(
    connection: Connection, tenant: str, patches: Sequence[Patch], *, actor: str | None, extractor: str
) -> tuple[list[MemoryVerdictV1], dict[str, int]]:
    """Updates memories, each judged alone, in the caller's transaction and under its lock on the outbox.

    Gives verdicts and positions by id. Of several patches of one memory the first counts.
    """
    firsts = {patch.id: patch for patch in reversed(patches)}
    held = await _read(connection, tenant, list(firsts))

    def judge_all() -> dict[str, Memory | MemoryVerdictV1]:
        return {one.id: judged(one, held.get(one.id)) for one in FOREGROUND.throttled(firsts.values(), _AT_A_TIME)}

    found = await asyncio.to_thread(judge_all)
    changed = {memory.id: memory for memory in found.values() if isinstance(memory, Memory)}
    neighbours = await _neighbours(connection, tenant, changed)
    neighbours += await queue_readers(connection, tenant, list(changed))

    async def change(some: Sequence[Memory]) -> None:
        await connection.execute(sql.ADD_HISTORY, tenant, [one.id for one in some], "update", actor, {})
        await connection.execute(sql.CHANGE, [sql.to_row(one) for one in some])

    names = list(changed)
    whys = await _each_refused_alone(connection, list(changed.values()), change) if changed else {}
    refused = {names[index]: why for index, why in whys.items()}
    done = [name for name in changed if name not in refused]
    await queue_new(connection, [changed[name] for name in done], extractor)
    neighbours += await _neighbours(connection, tenant, done)
    positions = await _enqueue(connection, tenant, done, neighbours)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in done])

    def verdict(patch: Patch) -> MemoryVerdictV1:
        one = found[patch.id]
        if firsts[patch.id] is not patch:
            return conflict(patch.id, "the same message changes it already")
        if isinstance(one, MemoryVerdictV1):
            return one
        why = refused.get(patch.id)
        return MemoryVerdictV1(id=patch.id, status="updated" if why is None else "rejected", reason=why)

    return [verdict(patch) for patch in patches], positions


async def delete(
    connection: Connection, tenant: str, ids: Sequence[str], *, actor: str | None, why: str | None, erase: bool
) -> tuple[list[MemoryVerdictV1], dict[str, int]]:
    """Deletes memories in the caller's transaction and under its lock; with `erase` only ids and steps are kept."""
    names = list(dict.fromkeys(ids))
    held = await _read(connection, tenant, names)
    alive = [name for name, memory in held.items() if memory.deleted_at is None]
    lineage: dict[str, JsonValue] = {"reason": why} if why else {}
    positions = await _retire(connection, tenant, alive, actor=actor, lineage=lineage)
    positions |= await _last_positions(connection, tenant, [name for name in held if name not in alive])
    if erase and held:
        # Once: a second request finds nothing left to erase.
        full = [name for name, memory in held.items() if memory.content_hash]
        await connection.execute(sql.ADD_HISTORY, tenant, full, "erase", actor, lineage)
        for statement in (sql.ERASE, sql.ERASE_HISTORY, successions.ERASE, successions.ERASE_FORMER):
            await connection.execute(statement, tenant, full)
    return [
        MemoryVerdictV1(id=name, status="deleted")
        if name in held
        else MemoryVerdictV1(id=name, status="missing", reason="no memory has this id")
        for name in ids
    ], positions


async def supersede(connection: Connection, memory: Memory) -> str | None:
    """Retires what the memory supersedes, in the caller's transaction and under its lock on the outbox.

    Those that are retired already are left alone, and those that superseded this one; why, for the first of them.
    """
    tenant, ids, by = memory.tenant, memory.supersedes, memory.id
    held = await _read(connection, tenant, ids)
    after = {row["id"] for row in await connection.fetch(sql.SUPERSEDED_BY, tenant, by)}
    live = [name for name, one in held.items() if one.is_live and name not in after]
    await _retire(connection, tenant, live, by=by, lineage={"superseded_by": by})
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
    *,
    lineage: Mapping[str, JsonValue],
    actor: str | None = None,
    by: str | None = None,
) -> dict[str, int]:
    """Supersedes memories by another, or deletes them."""
    if not ids:
        return {}
    neighbours = await _neighbours(connection, tenant, ids)
    # A copy holds with a memory what succeeds it.
    neighbours += [row["id"] for row in await connection.fetch(successions.OTHER_ENDS, tenant, list(ids))]
    neighbours += await queue_readers(connection, tenant, ids)
    op = "delete" if by is None else "supersede"
    await connection.execute(sql.ADD_HISTORY, tenant, list(ids), op, actor, lineage)
    await connection.execute(sql.RETIRE, tenant, list(ids), by)
    return await _enqueue(connection, tenant, ids, neighbours)


async def _read(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
    return {row["id"]: sql.to_memory(row) for row in await connection.fetch(sql.READ, tenant, list(ids))}


async def _neighbours(connection: Connection, tenant: str, ids: Iterable[str]) -> list[str]:
    return [row["id"] for row in await connection.fetch(sql.NEIGHBOURS, tenant, list(ids))]


async def _enqueue(
    connection: Connection, tenant: str, ids: Sequence[str], neighbours: Sequence[str]
) -> dict[str, int]:
    queued = list(dict.fromkeys((*ids, *neighbours)))
    rows = await connection.fetch(sql.ENQUEUE, tenant, queued) if queued else ()
    positions = {row["memory_id"]: row["position"] for row in rows}
    return {name: positions[name] for name in ids}


async def _last_positions(connection: Connection, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    rows = await connection.fetch(sql.LAST_POSITIONS, tenant, list(ids)) if ids else ()
    return {row["memory_id"]: row["position"] for row in rows}
