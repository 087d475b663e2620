"""Fills the record with a tenant's memories: the composed ones as a worker does, their repetitions by Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, borrow, open_pool
from orion_recall.postgres.schema import migrate
from tests.bench import corpus_words as lists
from tests.bench.scale.memories import SHIFT_S, TenantMemories

_AT_ONCE = 200
_STATEMENT_TIMEOUT_MS = 3_600_000

# All columns of a memory but those that are computed, and those that a repetition has of its own.
_SAME: LiteralString = (
    "kind, title, speaker, node_id, user_id, agent_id, run_id, mentioned_at, tags, entities, statements, times, "
    "source, uri, metadata, text_hash, confidence, given_entities, extracted_by, extraction_note, "
    "guessed_kind, kind_confidence"
)
_REPEAT: LiteralString = (
    "INSERT INTO memories (tenant, id, text, session_id, occurred_at, content_hash, " + _SAME + ") "
    "SELECT tenant, 'm-' || lpad(n::text, 7, '0'), text || ' Ask ' || ($4::text[])[1 + (n::bigint * 7919) % "
    "cardinality($4::text[])] || ' about the ' || ($5::text[])[1 + (n::bigint * 104729) % "
    "cardinality($5::text[])] || ', note ' || n || '.', "
    "'s-' || lpad(($2 + substr(session_id, 3)::int)::text, 7, '0'), "
    "occurred_at - make_interval(secs => $3), md5(n::text), " + _SAME + " "
    "FROM (SELECT m.*, $2 + substr(m.id, 3)::int AS n FROM memories m WHERE tenant = $1 AND id < $6) AS base "
    "WHERE n < $7 ORDER BY n"
)
# One entry for each memory, in the order of positions; nothing is to be extracted again.
_QUEUE: Sequence[LiteralString] = (
    "TRUNCATE outbox, memory_history, memory_extractions RESTART IDENTITY",
    "INSERT INTO outbox (tenant, memory_id, op) SELECT tenant, id, 'upsert' FROM memories ORDER BY tenant DESC, id",
    "INSERT INTO memory_history (tenant, memory_id, version, op) SELECT tenant, id, 1, 'add' FROM memories "
    "ORDER BY tenant DESC, id",
    "VACUUM ANALYZE",
)


async def fill_record(dsn: str, parts: Sequence[TenantMemories]) -> str:
    """Fills it; its database identity. The small tenant's entries come first in the outbox."""
    await migrate(dsn)
    pool = await open_pool(dsn, name="bench", max_size=1, statement_timeout_ms=_STATEMENT_TIMEOUT_MS)
    try:
        for part in parts:
            await _fill(pool, part)
        async with borrow(pool, "queueing") as connection:
            for statement in _QUEUE:
                await connection.execute(statement)
        return await Record(pool).database_identity()
    finally:
        await pool.close()


async def _fill(pool: Pool, part: TenantMemories) -> None:
    record, memories = Record(pool), [change.memory for change in part.base]
    for start in range(0, len(memories), _AT_ONCE):
        await record.store(memories[start : start + _AT_ONCE])
    after_base = f"m-{len(memories):07d}"
    async with borrow(pool, "repeating memories") as connection:
        for repetition in range(1, part.repetitions):
            first = part.numbers(repetition).start
            values = (part.tenant, first, SHIFT_S * repetition, list(lists.PLACES), list(lists.OBJECTS))
            await connection.execute(_REPEAT, *values, after_base, part.size)
