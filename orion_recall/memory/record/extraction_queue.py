"""Background extraction: the queue of memories that are due, and the part of a worker that serves it.

A worker claims a memory for a while; if it is gone by then, another claims it. The result is written together with
the outbox entry and the end of the queue row, and only to the version of the memory that was read. What
reads and writes the queue raises RecordError while Postgres is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Literal, LiteralString, NamedTuple

from orion_recall.errors import RecordError
from orion_recall.memory.extraction.light import EarlierMemory, Extraction, Extractor, Passage, light
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.compose import known_names, unique_names
from orion_recall.memory.record.successions import STATING, write_stated
from orion_recall.postgres.pool import Connection, Pool, Row, borrow, fetched
from orion_recall.tasks import POSTGRES_S, Backoff, sleep
from orion_recall.text.normal import storable
from orion_recall.values import Memory, Neighbour

log = logging.getLogger("orion_recall.memory")

End = Literal["extracted", "unchanged", "outdated"]

_DUE_AGAIN: LiteralString = """
ON CONFLICT (tenant, memory_id) DO UPDATE SET
    extractor = excluded.extractor, due_at = now(), attempts = 0, ticket = excluded.ticket
"""
_QUEUE: LiteralString = f"""
INSERT INTO memory_extractions (tenant, memory_id, extractor)
SELECT tenant, id, $3 FROM unnest($1::text[], $2::text[]) AS given (tenant, id) {_DUE_AGAIN}
"""  # noqa: S608 (nothing but constants)
# The live turns after the given ones: whom they call "she" may be another one. By what they were read by.
_QUEUE_FOLLOWING: LiteralString = f"""
INSERT INTO memory_extractions (tenant, memory_id, extractor)
SELECT DISTINCT s.tenant, turn.id, turn.extracted_by
FROM memories s CROSS JOIN LATERAL {record_sql.FOLLOWING_TURN} AS turn
WHERE s.tenant = $1 AND s.id = ANY($2::text[]) AND turn.id <> ALL($2::text[])
ON CONFLICT (tenant, memory_id) DO UPDATE SET due_at = now(), attempts = 0, ticket = excluded.ticket
"""  # noqa: S608 (the same)
# What was restated from the given memories is searched no longer; names from a turn stay until it is read again.
_RESTATED_NO_MORE: LiteralString = f"""
WITH gone AS (
    UPDATE memories SET restated = NULL, restated_from = NULL
    WHERE tenant = $1 AND restated_from && $2::text[] AND id <> ALL($2::text[])
    RETURNING tenant, id, extracted_by
), queued AS (
    INSERT INTO memory_extractions (tenant, memory_id, extractor)
    SELECT tenant, id, extracted_by FROM gone {_DUE_AGAIN}
)
SELECT id FROM gone
"""  # noqa: S608 (the same)
# $2: these ids only, or all. $3: only those that another extractor than the chosen one had to do.
_QUEUE_AGAIN: LiteralString = f"""
INSERT INTO memory_extractions (tenant, memory_id, extractor)
SELECT tenant, id, $4 FROM memories
WHERE tenant = $1 AND live AND ($2::text[] IS NULL OR id = ANY($2::text[]))
  AND (NOT $3::boolean OR extraction_note IS NOT NULL)
ORDER BY seq {_DUE_AGAIN} RETURNING memory_id
"""  # noqa: S608 (the same)

# In the order of due times; rows that another worker is claiming are skipped.
_TAKE: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT tenant, memory_id FROM memory_extractions
    WHERE extractor = $1 AND due_at <= now()
    ORDER BY due_at, ticket LIMIT $2 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE memory_extractions e SET
        due_at = now() + make_interval(secs => $3::float8), attempts = attempts + 1, ticket = DEFAULT
    FROM due WHERE e.tenant = due.tenant AND e.memory_id = due.memory_id
    RETURNING e.tenant, e.memory_id, e.attempts, e.ticket
)
SELECT t.ticket, t.attempts, s.*,
    previous.id AS previous_id, previous.text AS previous_text, previous.speaker AS previous_speaker
FROM taken t JOIN memories s ON s.tenant = t.tenant AND s.id = t.memory_id
{record_sql.PREVIOUS_TURN}
ORDER BY s.seq
"""  # noqa: S608 (nothing but constants)

# Of claimed memories the four turns before; and earlier memories of their owner with names of theirs, of the newest
# 200 those with the most.
_AROUND: LiteralString = f"""
SELECT s.tenant, s.id AS of, 'before' AS part, n.id, n.text, n.speaker, n.version, NULL::float8 AS at, n.place
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN memories s ON s.tenant = given.tenant AND s.id = given.id
CROSS JOIN LATERAL (
    SELECT turn.*, row_number() OVER () AS place
    FROM (SELECT n.id, n.text, n.speaker, n.version FROM memories n {record_sql.TURNS_BEFORE} LIMIT 4) AS turn
) AS n
UNION ALL
SELECT s.tenant, s.id, 'earlier', n.id, n.text, n.speaker, n.version, extract(epoch FROM n.ts)::float8,
    row_number() OVER (PARTITION BY s.tenant, s.id ORDER BY n.shared DESC, n.ts DESC, n.seq DESC)
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN memories s ON s.tenant = given.tenant AND s.id = given.id
CROSS JOIN LATERAL (
    SELECT m.*, cardinality(ARRAY(SELECT unnest(m.entities) INTERSECT SELECT unnest(s.entities))) AS shared
    FROM (
        SELECT m.id, m.text, m.speaker, m.version, m.entities, m.ts, m.seq FROM memories m
        WHERE m.tenant = s.tenant AND m.live AND m.id <> s.id AND m.entities && s.entities
          AND m.user_id IS NOT DISTINCT FROM s.user_id AND m.agent_id IS NOT DISTINCT FROM s.agent_id
          AND m.ts < s.ts
        ORDER BY m.ts DESC, m.seq DESC LIMIT 200
    ) AS m
    ORDER BY shared DESC, m.ts DESC, m.seq DESC LIMIT 8
) AS n
ORDER BY place
"""  # noqa: S608 (nothing but constants)
_SHOWN_AS_IT_WAS: LiteralString = """
SELECT count(*) FROM unnest($2::text[], $3::integer[]) AS given (id, version)
JOIN memories m ON m.tenant = $1 AND m.id = given.id AND m.version = given.version AND m.live
"""

_LOCK_MEMORY: LiteralString = """
SELECT version, live, entities, statements, times, restated FROM memories
WHERE tenant = $1 AND id = $2 FOR UPDATE
"""
_WRITE: LiteralString = """
UPDATE memories SET entities = $3, statements = $4, times = $5, restated = $6, extracted_by = $7,
    extraction_note = $8, restated_from = $9
WHERE tenant = $1 AND id = $2
"""
_END: LiteralString = "DELETE FROM memory_extractions WHERE tenant = $1 AND memory_id = $2 AND ticket = $3"
_AGAIN: LiteralString = """
UPDATE memory_extractions SET due_at = now(), attempts = greatest(attempts - 1, 0)
WHERE tenant = $1 AND memory_id = $2 AND ticket = $3
"""
_DUE: LiteralString = "SELECT extractor, count(*) AS count FROM memory_extractions GROUP BY 1 ORDER BY 1"


class Taken(NamedTuple):
    """A claimed memory, the turn before it, and how often any worker has claimed it.

    For an extractor that reads around it, the turns before that one, earlier memories, and the versions of all of
    them by id."""

    memory: Memory
    previous: Neighbour | None
    attempts: int
    ticket: int
    before: tuple[Neighbour, ...] = ()
    earlier: tuple[EarlierMemory, ...] = ()
    shown: Mapping[str, int] = MappingProxyType({})

    @property
    def passage(self) -> Passage:
        memory = self.memory
        return Passage(
            text=memory.text,
            speaker=memory.speaker,
            known=tuple(known_names(memory.given_entities, memory.title)),
            at=memory.ts,
            previous=self.previous,
            before=self.before,
            earlier=self.earlier,
        )


async def queue_new(connection: Connection, memories: Sequence[Memory], extractor: str) -> None:
    """Queues memories that were just stored or changed, in the caller's transaction."""
    due = [memory for memory in memories if extractor != "light" or memory.lacks_context]
    if due:
        tenants, names = [memory.tenant for memory in due], [memory.id for memory in due]
        await connection.execute(_QUEUE, tenants, names, extractor)


async def queue_readers(connection: Connection, tenant: str, ids: Sequence[str]) -> list[str]:
    """Queues what was read beside memories that change or go, in the caller's transaction, and before that.

    These are the turns that follow them, and those that a language model read with them: the ids of the latter,
    whose copies are to be told that the restated sentence is gone."""
    if not ids:
        return []
    await connection.execute(_QUEUE_FOLLOWING, tenant, list(ids))
    return [row["id"] for row in await connection.fetch(_RESTATED_NO_MORE, tenant, list(ids))]


async def queue_again(
    pool: Pool, tenant: str, ids: Sequence[str] | None, *, extractor: str, only_noted: bool = False
) -> list[str]:
    """Queues live memories again, all (None) or some; the ids of those queued."""
    given = storable(tenant), ids and [storable(name) for name in ids], only_noted, extractor
    rows = await fetched(pool, "making memories due", _QUEUE_AGAIN, *given)
    return [row["memory_id"] for row in rows]


async def take(pool: Pool, extractor: str, limit: int, *, for_s: float) -> list[Taken]:
    """Claims memories that are due, at most `limit`, for `for_s` seconds."""
    rows = await fetched(pool, "claiming memories", _TAKE, extractor, limit, for_s)
    turns = [(record_sql.to_memory(row), record_sql.to_neighbour(row, "previous")) for row in rows]
    taken = [Taken(*turn, row["attempts"], row["ticket"]) for turn, row in zip(turns, rows, strict=True)]
    return await _with_what_is_around(pool, taken) if taken and extractor == STATING else taken


async def _with_what_is_around(pool: Pool, taken: Sequence[Taken]) -> list[Taken]:
    given = [one.memory.tenant for one in taken], [one.memory.id for one in taken]
    around: dict[tuple[str, str], list[Row]] = {}
    for row in await fetched(pool, "reading what is around memories", _AROUND, *given):
        around.setdefault((row["tenant"], row["of"]), []).append(row)
    found: list[Taken] = []
    for one in taken:
        rows = around.get((one.memory.tenant, one.memory.id), [])
        turns = [row for row in rows if row["part"] == "before"]
        in_turns = {row["id"] for row in turns}
        others = [row for row in rows if row["part"] == "earlier" and row["id"] not in in_turns]
        before = [Neighbour(id=row["id"], text=row["text"], speaker=row["speaker"]) for row in reversed(turns[1:])]
        earlier = [EarlierMemory(row["id"], row["text"], row["at"]) for row in others]
        shown = {row["id"]: row["version"] for row in (*turns, *others)}
        found.append(one._replace(before=tuple(before), earlier=tuple(earlier), shown=shown))
    return found


async def finish(pool: Pool, taken: Taken, found: Extraction) -> End:
    """Writes the extraction, in one transaction with the outbox entry and the end of the queue row."""
    memory = taken.memory
    key = (memory.tenant, memory.id)
    lists = list(found.entities), *([asdict(one) for one in part] for part in (found.statements, found.times))
    said, shown = (*lists, found.restated), taken.shown
    async with borrow(pool, "writing an extraction") as connection, connection.transaction():
        await connection.execute(record_sql.LOCK_OUTBOX)
        held = await connection.fetchrow(_LOCK_MEMORY, *key)
        is_live = held is not None and held["live"]
        if held is None or not is_live or held["version"] != memory.version:
            await connection.execute(_AGAIN if is_live else _END, *key, taken.ticket)
            return "outdated"
        if shown:
            given = memory.tenant, list(shown), list(shown.values())
            if await connection.fetchval(_SHOWN_AS_IT_WAS, *given) != len(shown):
                await connection.execute(_AGAIN, *key, taken.ticket)
                return "outdated"
        # Names of statements come from the turns alone.
        turns = [turn.id for turn in taken.passage.turns] if shown else []
        restated_from = (turns or None) if found.restated is None else list(shown)
        await connection.execute(_WRITE, *key, *said, found.by, found.note, restated_from)
        # Index and graph are told only of what they show: to embed a text again is dear.
        is_new = (held["entities"], held["statements"], held["times"], held["restated"]) != said
        if is_new:
            await connection.execute(record_sql.ENQUEUE, memory.tenant, [memory.id])
        told = replace(memory, entities=found.entities, statements=found.statements, extracted_by=found.by)
        await write_stated(connection, told, found.replaces)
        await connection.execute(_END, *key, taken.ticket)
        return "extracted" if is_new else "unchanged"


async def put_back(pool: Pool, taken: Sequence[Taken]) -> None:
    """Releases claims, so that other workers can claim the memories at once."""
    async with borrow(pool, "putting memories back") as connection:
        for one in taken:
            await connection.execute(_AGAIN, one.memory.tenant, one.memory.id, one.ticket)


async def due(pool: Pool) -> dict[str, int]:
    """How many memories wait, by the extractor they wait for."""
    rows = await fetched(pool, "counting what is due", _DUE)
    return {row["extractor"]: row["count"] for row in rows}


# A text that crashes workers is not claimed for ever.
MOST_ATTEMPTS = 5
_POLL_S, _RELEASE_TIMEOUT_S = 1.0, 1.0
# Between what an extractor takes at most and when its memories are taken from it.
_MARGIN_S = 30.0


@dataclass(slots=True)
class ExtractionCounts:
    """Counts of memories: done as chosen, done by light extraction instead, to be done again."""

    extracted: int = 0
    fallen_back: int = 0
    failed: int = 0


class BackgroundExtraction:
    """Claims and extracts the memories that are due for one extractor: `run()` until cancelled, in any worker."""

    def __init__(self, pool: Pool, extractor: Extractor, *, look_every_s: float = _POLL_S) -> None:
        self.counts = ExtractionCounts()
        self.error: str | None = None
        self._pool, self._extractor, self._look_every_s = pool, extractor, look_every_s
        self._wake = asyncio.Event()

    @property
    def name(self) -> str:
        return self._extractor.name

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Take up what is due, as much at once as the extractor takes; wait while the record is away."""
        backoff, one = Backoff(*POSTGRES_S), self._extractor
        while True:
            self._wake.clear()
            try:
                taken = await take(self._pool, self.name, one.at_once * one.batch, for_s=one.longest_s + _MARGIN_S)
                self.error = None
                backoff.reset()
            except RecordError as error:
                if self.error is None:
                    log.warning("extraction by %s waits: %s", self.name, error)
                self.error = str(error)
                await backoff.wait()
                continue
            if not taken:
                await sleep(self._look_every_s, self._wake)
                continue
            parts = [taken[start : start + one.batch] for start in range(0, len(taken), one.batch)]
            try:
                ended = await asyncio.gather(*map(self._serve, parts), return_exceptions=True)
            except asyncio.CancelledError:
                # Others may take them at once; those that are done are not due any more.
                with contextlib.suppress(RecordError, TimeoutError):
                    async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                        await put_back(self._pool, taken)
                raise
            # The rows come back by themselves, later: what brought this down may bring the next one down too.
            for error in (one for one in ended if one is not None):
                self.counts.failed += 1
                log.error("extraction by %s failed: %s: %s", self.name, type(error).__name__, error, exc_info=error)

    async def _serve(self, taken: Sequence[Taken]) -> None:
        passages = [one.passage for one in taken]
        wanted = [place for place, one in enumerate(taken) if one.memory.is_live and one.attempts <= MOST_ATTEMPTS]
        found = await self._extractor.extract([passages[place] for place in wanted]) if wanted else []
        by_place = dict(zip(wanted, found, strict=True))
        gave_up = f"{self.name}: given up after {MOST_ATTEMPTS} attempts"
        for place, one in enumerate(taken):
            result = by_place[place] if place in by_place else light(passages[place], gave_up)
            whole = replace(result, entities=unique_names([*result.entities, *one.memory.given_entities]))
            if await finish(self._pool, one, whole) == "outdated":
                self.counts.failed += int(one.memory.is_live)
            elif result.note is None:
                self.counts.extracted += 1
            else:
                self.counts.fallen_back += 1
                log.info("extraction fell back to light: %s", result.note)
