"""SQL of merged names. Writing statements run under the outbox's lock."""

from __future__ import annotations

from typing import LiteralString

OF_TENANT: LiteralString = """
SELECT *, extract(epoch FROM at)::float8 AS at_s, extract(epoch FROM undone_at)::float8 AS undone_at_s
FROM entity_merges WHERE tenant = $1 AND (undone_at IS NULL OR $2) ORDER BY id
"""

BY_ID: LiteralString = (
    "SELECT id, undone_at IS NULL AS in_force FROM entity_merges WHERE tenant = $1 AND id = ANY($2::bigint[])"
)

MERGE: LiteralString = """
INSERT INTO entity_merges
    (tenant, kind, alias, alias_label, merged_into, canonical, canonical_folded, scores, actor)
VALUES ($1, $2, $3, $4, $5, $5, $6, $7, $8) RETURNING id
"""

UNDO: LiteralString = """
UPDATE entity_merges SET undone_at = now(), undone_by = $3
WHERE tenant = $1 AND id = ANY($2::bigint[]) AND undone_at IS NULL
"""

DELETE: LiteralString = "DELETE FROM entity_merges WHERE tenant = $1 AND id = ANY($2::bigint[])"

# Links into a name that goes lead to what that name was called.
LEAD_ON: LiteralString = """
UPDATE entity_merges m SET merged_into = given.name
FROM unnest($2::bigint[], $3::text[]) AS given (id, name) WHERE m.tenant = $1 AND m.id = given.id
"""

# The ends of chains that have become longer or shorter.
RESOLVE: LiteralString = """
UPDATE entity_merges m SET canonical = given.canonical, canonical_folded = given.folded
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS given (kind, alias, canonical, folded)
WHERE m.tenant = $1 AND m.kind = given.kind AND m.alias = given.alias AND m.undone_at IS NULL
    AND (m.canonical, m.canonical_folded) IS DISTINCT FROM (given.canonical, given.folded)
"""

# Every spelling of every name that a tenant's memories give.
SPELLINGS: LiteralString = """
SELECT DISTINCT 'entity' AS kind, name FROM memories, unnest(entities) AS name WHERE tenant = $1 AND live
UNION ALL
SELECT DISTINCT 'relation', told ->> 'relation' FROM memories, jsonb_array_elements(statements) AS told
WHERE tenant = $1 AND live
"""

NAMING: LiteralString = """
SELECT id, seq FROM memories WHERE tenant = $1 AND live AND entities && $2::text[]
UNION
SELECT id, seq FROM memories WHERE tenant = $1 AND live AND $3::text[] <> '{}' AND EXISTS (
    SELECT FROM jsonb_array_elements(statements) AS told WHERE told ->> 'relation' = ANY($3::text[])
)
ORDER BY seq
"""

# One memory that gives a name itself, so that what the copies hold of the name itself is written again.
ONE_NAMING: LiteralString = """
SELECT id FROM memories WHERE tenant = $1 AND live AND entities && $2::text[] ORDER BY seq DESC LIMIT 1
"""

# A merge makes no version: what the memories say stays. Names are in the merge alone, so that one who erases a
# memory need not look for them here.
ADD_HISTORY: LiteralString = """
INSERT INTO memory_history (tenant, memory_id, version, op, before, actor, lineage)
SELECT tenant, id, version, 'merge', to_jsonb(m) - ARRAY['search', 'live', 'ts'], $3, $4::jsonb
FROM memories m WHERE tenant = $1 AND id = ANY($2::text[]) ORDER BY seq
"""

# What a tenant's memories name, in the order in which they came.
NAMES: LiteralString = """
SELECT seq, id, entities, statements FROM memories
WHERE tenant = $1 AND live AND seq > $2 ORDER BY seq LIMIT $3
"""
