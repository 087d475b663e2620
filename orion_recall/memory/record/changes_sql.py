"""SQL for changes of stored memories. Every statement runs under the lock of the outbox."""

from __future__ import annotations

from typing import LiteralString

READ: LiteralString = "SELECT * FROM memories WHERE tenant = $1 AND id = ANY($2::text[]) ORDER BY seq FOR UPDATE"

# The previous and next turn in the session of each given memory.
NEIGHBOURS: LiteralString = """
SELECT DISTINCT turn.id, turn.seq
FROM memories s CROSS JOIN LATERAL (
    (SELECT n.id, n.seq FROM memories n
     WHERE n.tenant = s.tenant AND n.session_id = s.session_id AND n.live
       AND (coalesce(n.ts, '-infinity'), n.seq) < (coalesce(s.ts, '-infinity'), s.seq)
     ORDER BY coalesce(n.ts, '-infinity') DESC, n.seq DESC LIMIT 1)
    UNION ALL
    (SELECT n.id, n.seq FROM memories n
     WHERE n.tenant = s.tenant AND n.session_id = s.session_id AND n.live
       AND (coalesce(n.ts, '-infinity'), n.seq) > (coalesce(s.ts, '-infinity'), s.seq)
     ORDER BY coalesce(n.ts, '-infinity'), n.seq LIMIT 1)
) AS turn
WHERE s.tenant = $1 AND s.id = ANY($2::text[])
ORDER BY turn.seq
"""

# Before the change itself. Computed columns are left out.
ADD_HISTORY: LiteralString = """
INSERT INTO memory_history (tenant, memory_id, version, op, before, actor, lineage)
SELECT tenant, id, version + 1, $3, to_jsonb(m) - ARRAY['search', 'live', 'ts'], $4, $5::jsonb
FROM memories m WHERE tenant = $1 AND id = ANY($2::text[]) ORDER BY seq
"""

CHANGE: LiteralString = """
UPDATE memories m SET
    text = given.text, kind = given.kind, title = given.title, speaker = given.speaker,
    session_id = given.session_id, node_id = given.node_id, user_id = given.user_id, agent_id = given.agent_id,
    run_id = given.run_id, occurred_at = given.occurred_at, occurred_until = given.occurred_until,
    mentioned_at = given.mentioned_at, tags = given.tags, entities = given.entities,
    statements = given.statements, times = given.times, source = given.source, uri = given.uri,
    metadata = given.metadata,
    text_hash = given.text_hash, content_hash = given.content_hash,
    confidence = given.confidence, given_entities = given.given_entities, extracted_by = given.extracted_by,
    extraction_note = given.extraction_note, guessed_kind = given.guessed_kind,
    kind_confidence = given.kind_confidence,
    version = m.version + 1, updated_at = now()
FROM json_to_recordset($1::json) AS given (
    tenant text, id text, text text, kind text, title text, speaker text, session_id text, node_id text,
    user_id text, agent_id text, run_id text, occurred_at timestamptz, occurred_until timestamptz,
    mentioned_at timestamptz, tags text[], entities text[], statements jsonb, times jsonb, source text,
    uri text, metadata jsonb, text_hash text, content_hash text, confidence float8,
    given_entities text[], extracted_by text, extraction_note text, guessed_kind text, kind_confidence real
)
WHERE m.tenant = given.tenant AND m.id = given.id
"""

SUPERSEDE: LiteralString = """
UPDATE memories SET superseded_by = $3, version = version + 1, updated_at = now()
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

DELETE: LiteralString = """
UPDATE memories SET deleted_at = now(), version = version + 1, updated_at = now()
WHERE tenant = $1 AND id = ANY($2::text[])
"""

# The row stays, so that the id is not used again. Hashes go too: that of a short text would reveal it.
ERASE: LiteralString = """
UPDATE memories SET text = '', title = NULL, speaker = NULL, tags = '{}', entities = '{}', statements = '[]',
    times = '[]', source = NULL, uri = NULL, metadata = '{}', text_hash = '', content_hash = '',
    confidence = NULL, given_entities = '{}', extraction_note = NULL, version = version + 1
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

HISTORY: LiteralString = """
SELECT h.version, h.op, h.actor, h.lineage, extract(epoch FROM h.at)::float8 AS at, h.before,
    coalesce(
        lead(h.before) OVER (ORDER BY h.id),
        (SELECT to_jsonb(m) - ARRAY['search', 'live', 'ts'] FROM memories m WHERE m.tenant = $1 AND m.id = $2)
    ) AS after
FROM memory_history h WHERE h.tenant = $1 AND h.memory_id = $2 ORDER BY h.id
"""
