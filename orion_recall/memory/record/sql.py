"""SQL of the record and of changes in it, and the conversion of memories to rows and back."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, LiteralString, cast

from orion_recall.postgres.pool import Row
from orion_recall.values import Memory, Neighbour, Statement, TimeMention

# The lock that serializes writers of the outbox.
LOCK_OUTBOX: LiteralString = "SELECT take_write_lock('outbox')"

_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at", "deleted_at"))
_LISTS = frozenset(("tags", "entities", "given_entities", "restated_from"))
_COLUMNS = tuple(one.name for one in fields(Memory) if one.name not in ("supersedes", "lacks_context"))

_OF_RECORD = frozenset(("tenant", "id", "version", "superseded_by", "deleted_at"))
# What a memory as it is given has of its row.
_GIVEN: list[LiteralString] = [cast("LiteralString", name) for name in _COLUMNS if name not in _OF_RECORD]
_GIVEN_NAMES: LiteralString = ", ".join(_GIVEN)
_GIVEN_VALUES: LiteralString = ", ".join([f"{name} = given.{name}" for name in _GIVEN])

# Of a memory `s` of a session the live turns `n` before and after it, nearest first. Undated ones come first.
TURNS_BEFORE: LiteralString = """
    WHERE n.tenant = s.tenant AND n.session_id = s.session_id AND n.live
      AND (coalesce(n.ts, '-infinity'), n.seq) < (coalesce(s.ts, '-infinity'), s.seq)
    ORDER BY coalesce(n.ts, '-infinity') DESC, n.seq DESC
"""
_BEFORE: LiteralString = f"{TURNS_BEFORE} LIMIT 1"
_AFTER: LiteralString = """
    WHERE n.tenant = s.tenant AND n.session_id = s.session_id AND n.live
      AND (coalesce(n.ts, '-infinity'), n.seq) > (coalesce(s.ts, '-infinity'), s.seq)
    ORDER BY coalesce(n.ts, '-infinity'), n.seq LIMIT 1
"""
_BOTH_TURNS: LiteralString = f"""
    (SELECT n.id, n.seq FROM memories n {_BEFORE}) UNION ALL (SELECT n.id, n.seq FROM memories n {_AFTER})
"""  # noqa: S608 (nothing but the texts above)
PREVIOUS_TURN: LiteralString = f"""
LEFT JOIN LATERAL (SELECT n.id, n.text, n.speaker FROM memories n {_BEFORE}) AS previous ON true
"""  # noqa: S608 (the same)
FOLLOWING_TURN: LiteralString = f"(SELECT n.id, n.text, n.speaker, n.extracted_by FROM memories n {_AFTER})"  # noqa: S608

# New memories in the order given, then the outbox: the new ones, then their stored neighbours, whose own neighbours
# have changed. The inner SELECTs see the table as it was before.
STORE: LiteralString = f"""
WITH stored AS (
    INSERT INTO memories (tenant, id, {_GIVEN_NAMES})
    SELECT tenant, id, {_GIVEN_NAMES}
    FROM json_populate_recordset(NULL::memories, $1::json) WITH ORDINALITY ORDER BY ordinality
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING tenant, id, seq, session_id, ts
), beside AS (
    SELECT DISTINCT s.tenant, turn.id, turn.seq FROM stored s CROSS JOIN LATERAL ({_BOTH_TURNS}) AS turn
), queued AS (
    INSERT INTO outbox (tenant, memory_id, op)
    SELECT tenant, id, 'upsert' FROM (
        SELECT tenant, id, 0 AS part, seq FROM stored UNION ALL SELECT tenant, id, 1, seq FROM beside
    ) AS both_parts ORDER BY part, seq
), told AS (
    INSERT INTO memory_history (tenant, memory_id, version, op)
    SELECT tenant, id, 1, 'add' FROM stored ORDER BY seq
)
SELECT tenant, id FROM stored
"""  # noqa: S608 (the same)

# The stored memories with the given ids, and the first outbox position of each.
HELD: LiteralString = """
SELECT m.tenant, m.id, m.content_hash, m.deleted_at IS NOT NULL AS deleted,
    (SELECT min(o.position) FROM outbox o WHERE o.tenant = m.tenant AND o.memory_id = m.id) AS position
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN memories m ON m.tenant = given.tenant AND m.id = given.id
"""

# For pairs of a memory and one that it supersedes, the last outbox position of the second.
SUPERSEDED: LiteralString = """
SELECT m.tenant, m.id, max(o.position) AS position
FROM unnest($1::text[], $2::text[], $3::text[]) AS given (tenant, id, by)
JOIN memories m ON m.tenant = given.tenant AND m.id = given.id AND m.superseded_by = given.by
JOIN outbox o ON o.tenant = m.tenant AND o.memory_id = m.id
GROUP BY m.tenant, m.id
"""

_WITH_TURNS: LiteralString = """s.*,
    previous.id AS previous_id, previous.text AS previous_text, previous.speaker AS previous_speaker,
    following.id AS following_id, following.text AS following_text, following.speaker AS following_speaker
"""
_JOIN_TURNS: LiteralString = f"""
JOIN memories s ON s.tenant = o.tenant AND s.id = o.memory_id
{PREVIOUS_TURN} LEFT JOIN LATERAL {FOLLOWING_TURN} AS following ON true
"""
CHANGES: LiteralString = f"""
SELECT o.position, {_WITH_TURNS}
FROM (SELECT * FROM outbox WHERE position > $1 ORDER BY position LIMIT $2) AS o {_JOIN_TURNS} ORDER BY o.position
"""  # noqa: S608 (the same)
# Given memories as they are now, as if they stood in the outbox at one position.
CHANGES_OF: LiteralString = f"""
SELECT $3::bigint AS position, {_WITH_TURNS}
FROM unnest($1::text[], $2::text[]) AS o (tenant, memory_id) {_JOIN_TURNS} ORDER BY s.seq
"""  # noqa: S608 (the same)

HEAD: LiteralString = "SELECT coalesce(max(position), 0) FROM outbox"

# When the schema was made, to the microsecond: unique, but for copies of the whole database.
DATABASE_IDENTITY: LiteralString = """
SELECT to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
FROM orion_migrations WHERE name = 'memory/memories.sql'
"""

REPORT_POSITION: LiteralString = """
INSERT INTO projections (copy, kind, position) VALUES ($1, $2, $3)
ON CONFLICT (copy, kind) DO UPDATE SET position = excluded.position, updated_at = now()
"""

HEARTBEAT: LiteralString = "UPDATE projections SET updated_at = now() WHERE copy = $1 AND kind = $2"

# As if its last heartbeat were so many seconds ago.
LEAVE: LiteralString = """
UPDATE projections SET updated_at = least(updated_at, now() - make_interval(secs => $2)) WHERE copy = $1
"""

# Only a copy without heartbeats for so many seconds: a live one would register again at once.
FORGET: LiteralString = """
DELETE FROM projections WHERE copy = $1 AND updated_at < now() - make_interval(secs => $2) RETURNING kind
"""

COPIES: LiteralString = """
SELECT copy, kind, position, extract(epoch FROM updated_at)::float8 AS updated_at,
    greatest(0, extract(epoch FROM clock_timestamp() - updated_at))::float8 AS silent_s
FROM projections ORDER BY copy, kind
"""

# In the order of ids, so that two of these cannot deadlock.
TOUCH: LiteralString = """
INSERT INTO memory_access AS held (tenant, id, count, last_at)
SELECT $1, id, count(*), now() FROM unnest($2::text[]) AS id GROUP BY id ORDER BY id
ON CONFLICT (tenant, id) DO UPDATE SET count = held.count + excluded.count, last_at = excluded.last_at
"""

GET: LiteralString = "SELECT * FROM memories WHERE tenant = $1 AND id = ANY($2::text[])"


def to_row(memory: Memory) -> dict[str, Any]:
    """The memory as JSON that `STORE` takes; times as ISO 8601."""
    row: dict[str, Any] = {name: getattr(memory, name) for name in _COLUMNS}
    for name in _TIMES:
        if row[name] is not None:
            row[name] = datetime.fromtimestamp(row[name], UTC).isoformat()
    row["statements"] = [asdict(edge) for edge in memory.statements]
    row["times"] = [asdict(mention) for mention in memory.times]
    row["metadata"] = dict(memory.metadata)
    return row


def to_memory(row: Row) -> Memory:
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS}
    for name in _TIMES:
        values[name] = None if values[name] is None else values[name].timestamp()
    for name in _LISTS:
        values[name] = tuple(values[name] or ())
    values["statements"] = tuple(Statement(**edge) for edge in values["statements"])
    values["times"] = tuple(TimeMention(**mention) for mention in values["times"])
    return Memory(**values)


def to_neighbour(row: Row, which: str) -> Neighbour | None:
    found = row[f"{which}_id"]
    if found is None:
        return None
    return Neighbour(id=found, text=row[f"{which}_text"], speaker=row[f"{which}_speaker"])


READ: LiteralString = "SELECT * FROM memories WHERE tenant = $1 AND id = ANY($2::text[]) ORDER BY seq FOR UPDATE"

# The previous and next turn in the session of each given memory.
NEIGHBOURS: LiteralString = f"""
SELECT DISTINCT turn.id, turn.seq FROM memories s CROSS JOIN LATERAL ({_BOTH_TURNS}) AS turn
WHERE s.tenant = $1 AND s.id = ANY($2::text[]) ORDER BY turn.seq
"""  # noqa: S608 (the same)

# Of a memory `m`. Computed columns are left out, and what was restated: it is made again.
_AS_IT_WAS: LiteralString = "to_jsonb(m) - ARRAY['search', 'live', 'ts', 'restated', 'restated_from']"

# Before the change itself. A merge makes no version: what the memories say stays.
ADD_HISTORY: LiteralString = f"""
INSERT INTO memory_history (tenant, memory_id, version, op, before, actor, lineage)
SELECT tenant, id, version + ($3::text <> 'merge')::int, $3::text, {_AS_IT_WAS}, $4,
    $5::jsonb FROM memories m WHERE tenant = $1 AND id = ANY($2::text[]) ORDER BY seq
"""  # noqa: S608 (the same)

CHANGE: LiteralString = f"""
UPDATE memories m SET {_GIVEN_VALUES}, version = m.version + 1, updated_at = now()
FROM json_populate_recordset(NULL::memories, $1::json) AS given WHERE m.tenant = given.tenant AND m.id = given.id
"""  # noqa: S608 (the same)

# Superseded by $3, or deleted where that is null.
RETIRE: LiteralString = """
UPDATE memories SET superseded_by = coalesce($3, superseded_by), version = version + 1, updated_at = now(),
    deleted_at = CASE WHEN $3::text IS NULL THEN now() ELSE deleted_at END
WHERE tenant = $1 AND id = ANY($2::text[])
"""

# The memory itself, and the chain of those that supersede it.
SUPERSEDED_BY: LiteralString = """
WITH RECURSIVE place AS (
    SELECT id, superseded_by FROM memories WHERE tenant = $1 AND id = $2
    UNION
    SELECT m.id, m.superseded_by FROM place p JOIN memories m ON m.tenant = $1 AND m.id = p.superseded_by
)
SELECT id FROM place
"""

# The row stays, so that the id is not used again. Hashes go too: that of a short text would reveal it.
ERASE: LiteralString = """
UPDATE memories SET text = '', title = NULL, speaker = NULL, tags = '{}', entities = '{}', statements = '[]',
    times = '[]', source = NULL, uri = NULL, metadata = '{}', text_hash = '', content_hash = '',
    confidence = NULL, given_entities = '{}', extraction_note = NULL, restated = NULL, restated_from = NULL,
    version = version + 1
WHERE tenant = $1 AND id = ANY($2::text[])
"""

ERASE_HISTORY: LiteralString = """
UPDATE memory_history SET before = '{"erased": true}'
WHERE tenant = $1 AND memory_id = ANY($2::text[]) AND before IS NOT NULL
"""

# In the order given: the memories first, then their neighbours. Returns each position.
ENQUEUE: LiteralString = """
INSERT INTO outbox (tenant, memory_id, op)
SELECT $1, id, 'upsert' FROM unnest($2::text[]) WITH ORDINALITY AS given (id, place) ORDER BY place
RETURNING memory_id, position
"""

LAST_POSITIONS: LiteralString = """
SELECT memory_id, max(position) AS position FROM outbox
WHERE tenant = $1 AND memory_id = ANY($2::text[]) GROUP BY memory_id
"""

HISTORY: LiteralString = f"""
SELECT h.version, h.op, h.actor, h.lineage, extract(epoch FROM h.at)::float8 AS at, h.before,
    coalesce(
        lead(h.before) OVER (ORDER BY h.id),
        (SELECT {_AS_IT_WAS} FROM memories m WHERE m.tenant = $1 AND m.id = $2)
    ) AS after
FROM memory_history h WHERE h.tenant = $1 AND h.memory_id = $2 ORDER BY h.id
"""  # noqa: S608 (the same)
