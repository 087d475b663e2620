"""SQL of successions: edges between memories, and how far the recognition has come."""

from __future__ import annotations

from typing import LiteralString

PROGRESS: LiteralString = "SELECT step FROM succession_progress"
LOCK_PROGRESS: LiteralString = "SELECT step FROM succession_progress FOR UPDATE"
ADVANCE: LiteralString = "UPDATE succession_progress SET step = $1"

# The steps after one that made a memory say something, in order, with whether the memory supersedes another.
STEPS: LiteralString = """
SELECT h.id AS step, h.tenant, h.memory_id, h.op, h.lineage ->> 'superseded_by' AS superseded_by
FROM memory_history h WHERE h.id > $1 ORDER BY h.id LIMIT $2
"""

# The given memories that are live, and the newer ends of their successions: what they say is compared again.
TO_READ: LiteralString = """
WITH given AS (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS name (tenant, id)), wanted AS (
    SELECT tenant, id FROM given
    UNION
    SELECT e.tenant, e.newer FROM given g
    JOIN memory_successions e ON e.tenant = g.tenant AND e.older = g.id AND e.state = 'candidate'
)
SELECT m.* FROM wanted w JOIN memories m ON m.tenant = w.tenant AND m.id = w.id
WHERE m.live ORDER BY m.seq
"""

HELD: LiteralString = """
SELECT e.tenant, e.newer, e.older, e.confidence, e.state, e.found_by, e.reason
FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
JOIN memory_successions e ON e.tenant = given.tenant AND e.newer = given.id
"""

PUT: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, confidence, found_by, reason)
SELECT g.tenant, g.newer, g.older, g.confidence, 'rule', g.reason
FROM unnest($1::text[], $2::text[], $3::text[], $4::real[], $5::text[])
    AS g (tenant, newer, older, confidence, reason)
JOIN memories m ON m.tenant = g.tenant AND m.id = g.older AND m.live
JOIN memories n ON n.tenant = g.tenant AND n.id = g.newer AND n.live
ON CONFLICT (tenant, newer, older) DO UPDATE
    SET confidence = excluded.confidence, reason = excluded.reason, changed_at = now()
    WHERE memory_successions.state = 'candidate'
"""

REMOVE: LiteralString = """
DELETE FROM memory_successions e USING unnest($1::text[], $2::text[], $3::text[]) AS g (tenant, newer, older)
WHERE e.tenant = g.tenant AND e.newer = g.newer AND e.older = g.older AND e.state = 'candidate'
"""

# A memory that supersedes another one takes its successions over.
INHERIT: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, confidence, state, found_by, reason)
SELECT tenant, $3, older, confidence, state, 'supersedes', reason FROM memory_successions
WHERE tenant = $1 AND newer = $2 AND older <> $3 AND state <> 'undone'
    AND EXISTS (SELECT FROM memories m WHERE m.tenant = $1 AND m.id = $3 AND m.live)
ON CONFLICT (tenant, newer, older) DO NOTHING
RETURNING older
"""

BY_HAND: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, confidence, state, found_by, actor, changed_at)
VALUES ($1, $2, $3, 1, $4, 'hand', $5, now())
ON CONFLICT (tenant, newer, older) DO UPDATE
    SET state = excluded.state, actor = excluded.actor, changed_at = now()
"""

# From the given older memory back over what it succeeds, as a chain of ids, to the given newer one. What is below
# the confidence given is a likeness.
CHAIN_BACK: LiteralString = """
WITH RECURSIVE chain AS (
    SELECT e.older AS id, ARRAY[e.newer, e.older] AS ids FROM memory_successions e
    WHERE e.tenant = $1 AND e.newer = $3 AND e.state <> 'undone' AND (e.state = 'confirmed' OR e.confidence >= $4)
    UNION ALL
    SELECT e.older, c.ids || e.older FROM chain c
    JOIN memory_successions e ON e.tenant = $1 AND e.newer = c.id
    WHERE e.state <> 'undone' AND (e.state = 'confirmed' OR e.confidence >= $4)
        AND e.older <> ALL(c.ids) AND c.id <> $2 AND cardinality(c.ids) <= $5
)
SELECT ids FROM chain WHERE id = $2 ORDER BY cardinality(ids) LIMIT 1
"""

STATE: LiteralString = """
SELECT state FROM memory_successions WHERE tenant = $1 AND newer = $2 AND older = $3
"""

# Both directions of the given memories, where both ends are live; `at` is when the newer one was said.
LINKS: LiteralString = """
SELECT e.tenant, e.newer, e.older, CASE e.state WHEN 'confirmed' THEN 1 ELSE e.confidence END AS confidence,
    e.found_by, e.reason, extract(epoch FROM coalesce(n.ts, n.recorded_at))::float8 AS at
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
SELECT e.newer, e.older, e.confidence, e.state, e.found_by, e.reason, e.actor,
    extract(epoch FROM e.at)::float8 AS at, extract(epoch FROM e.changed_at)::float8 AS changed_at,
    n.text AS newer_text, o.text AS older_text
FROM memory_successions e
LEFT JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer
LEFT JOIN memories o ON o.tenant = e.tenant AND o.id = e.older
WHERE e.tenant = $1 AND (e.newer = $2 OR e.older = $2) ORDER BY e.at, e.newer, e.older
"""

# Of live memories, those of the newest one first: recognised ones from the second parameter up and below the third,
# confirmed ones where that is NULL, undone ones where the fourth is true.
OF_TENANT: LiteralString = """
SELECT e.newer, e.older, e.confidence, e.state, e.found_by, e.reason, e.actor,
    extract(epoch FROM e.at)::float8 AS at, extract(epoch FROM e.changed_at)::float8 AS changed_at,
    n.text AS newer_text, o.text AS older_text
FROM memory_successions e
JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer AND n.live
JOIN memories o ON o.tenant = e.tenant AND o.id = e.older AND o.live
WHERE e.tenant = $1 AND CASE e.state
    WHEN 'candidate' THEN e.confidence >= $2 AND ($3::real IS NULL OR e.confidence < $3)
    WHEN 'confirmed' THEN $3 IS NULL
    ELSE $4 END
ORDER BY coalesce(n.ts, n.recorded_at) DESC, e.newer, e.confidence DESC, e.older LIMIT $5
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
