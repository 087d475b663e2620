"""SQL of successions: which memory takes the place of which older one."""

from __future__ import annotations

from typing import LiteralString

# Live memories of the same owner about one of the subjects, by the given extractor.
OF_SUBJECTS: LiteralString = """
SELECT m.* FROM memories o JOIN memories m ON m.tenant = o.tenant AND m.id <> o.id AND m.live
    AND m.user_id IS NOT DISTINCT FROM o.user_id AND m.agent_id IS NOT DISTINCT FROM o.agent_id
WHERE o.tenant = $1 AND o.id = $2 AND m.entities && $3::text[] AND m.extracted_by = $4
ORDER BY m.seq DESC LIMIT $5
"""

# What the extractor states now of a memory; a person's word stays.
NO_MORE_STATED: LiteralString = """
DELETE FROM memory_successions e
WHERE e.tenant = $1 AND (e.newer = $2 OR e.older = $2) AND e.state = 'stated' AND e.reason = 'by_extractor'
    AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::text[]) AS g (newer, older)
        WHERE g.newer = e.newer AND g.older = e.older)
RETURNING e.newer, e.older
"""
STATED: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, reason, evidence)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, newer, older) DO NOTHING
RETURNING newer
"""

# A memory that supersedes others takes their successions over.
INHERIT: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, reason, evidence)
SELECT tenant, $3, older, max(probability), 'supersedes', array_agg(newer ORDER BY newer) FROM memory_successions
WHERE tenant = $1 AND newer = ANY($2::text[]) AND older <> $3 AND state <> 'undone' GROUP BY tenant, older
ON CONFLICT (tenant, newer, older) DO NOTHING
RETURNING older
"""

BY_PERSON: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, state, reason, actor, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now())
ON CONFLICT (tenant, newer, older) DO UPDATE
    SET state = excluded.state, probability = excluded.probability, reason = excluded.reason, evidence = '{}',
        actor = excluded.actor, changed_at = now()
"""

# From the given older memory back over what it succeeds, as a chain of ids, to the given newer one.
CHAIN_BACK: LiteralString = """
WITH RECURSIVE chain AS (
    SELECT e.older AS id, ARRAY[e.newer, e.older] AS ids FROM memory_successions e
    WHERE e.tenant = $1 AND e.newer = $3 AND e.state <> 'undone'
    UNION ALL
    SELECT e.older, c.ids || e.older FROM chain c
    JOIN memory_successions e ON e.tenant = $1 AND e.newer = c.id
    WHERE e.state <> 'undone' AND e.older <> ALL(c.ids) AND c.id <> $2 AND cardinality(c.ids) <= $4
)
SELECT ids FROM chain WHERE id = $2 ORDER BY cardinality(ids) LIMIT 1
"""

STATE: LiteralString = """
SELECT state FROM memory_successions
WHERE tenant = $1 AND newer = $2 AND older = $3 AND (state = 'undone' OR reason = 'by_person')
"""

# Both directions of the given memories, where both ends are live; `at` is when the newer one was said.
LINKS: LiteralString = """
SELECT e.tenant, e.newer, e.older, e.probability, e.reason, e.evidence,
    extract(epoch FROM coalesce(n.ts, n.recorded_at))::float8 AS at
FROM (
    SELECT s.* FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    JOIN memory_successions s ON s.tenant = given.tenant AND s.newer = given.id
    UNION
    SELECT s.* FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    JOIN memory_successions s ON s.tenant = given.tenant AND s.older = given.id
) AS e
JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer AND n.live
JOIN memories o ON o.tenant = e.tenant AND o.id = e.older AND o.live
WHERE e.state <> 'undone'
ORDER BY at, e.newer, e.older
"""

OF_MEMORY: LiteralString = """
SELECT e.newer, e.older, e.probability, e.state, e.reason, e.evidence, e.actor,
    extract(epoch FROM e.at)::float8 AS at, extract(epoch FROM e.changed_at)::float8 AS changed_at,
    n.text AS newer_text, o.text AS older_text
FROM memory_successions e
LEFT JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer
LEFT JOIN memories o ON o.tenant = e.tenant AND o.id = e.older
WHERE e.tenant = $1 AND (e.newer = $2 OR e.older = $2) ORDER BY e.at, e.newer, e.older
"""

# The other ends of the successions of the given memories.
OTHER_ENDS: LiteralString = """
SELECT newer AS id FROM memory_successions WHERE tenant = $1 AND older = ANY($2::text[])
UNION SELECT older FROM memory_successions WHERE tenant = $1 AND newer = ANY($2::text[])
"""

ERASE: LiteralString = """
DELETE FROM memory_successions WHERE tenant = $1 AND (newer = ANY($2::text[]) OR older = ANY($2::text[]))
"""
ERASE_FORMER: LiteralString = """
DELETE FROM memory_succession_history WHERE tenant = $1 AND (newer = ANY($2::text[]) OR older = ANY($2::text[]))
"""
