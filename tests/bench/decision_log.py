"""The documented question to every view of the decision log, in ms: `python -m tests.bench.decision_log ROWS`.

Decisions of 90 days are made by the server itself, in the order of their times, as workers write them: five
memories an answer out of 20,000, some of them in one answer of nine; one in ten has low confidence, one in twenty a
shadow, one in fifty a canary and another a cascade, one in a hundred feedback. Ten million need 25 GB of disk.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from docs.tools.decision_log_questions import QUESTIONS
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import Connection, close_connection, open_connection
from orion_recall.postgres.schema import migrate

_AT_ONCE = 250_000
_REPEATS = 5
_MEMORIES = """
INSERT INTO memories (tenant, id, text, kind, text_hash, content_hash)
SELECT 'default', 'm' || n, 'The harbour crane number ' || n || ' needs oil.', 'world', 't' || n, 'c' || n
FROM generate_series(1, 20000) AS n
"""
_ACCESS = """
INSERT INTO memory_access (tenant, id, count, last_at)
SELECT 'default', 'm' || n, 1, now() FROM generate_series(1, 18990) AS n
"""
# $1 to $2 of $3 decisions; x is a number of its own for each, from 0 to 1.
_DECISIONS = """
INSERT INTO recall_decisions (id, corr_id, session_id, profile, query, selected_ids, backend_counts, latency_ms,
    dropped, created_at, outcome, tenant, scope, profile_hash, sources, selected, stage_ms, tokens, understood,
    confidence, cascade, no_answer, shadow_of, canary, asked, read_at, build)
SELECT md5(n::text)::uuid, 'c-' || n, 's-' || n / 8, CASE n % 3 WHEN 0 THEN 'reflect.v1' ELSE 'assist.light.v1' END,
    'Who repaired the harbour crane number ' || n || ' last year?', ids, '{"vector": 40, "lexical": 30, "rdf": 5}',
    5 + 200 * x * x, '{"near_duplicate": 3, "token_budget": 4}',
    now() - interval '90 days' * (1 - n::double precision / $3),
    CASE WHEN x < 0.02 THEN 'empty' ELSE 'ok' END, 'default', 'global', 'h' || n % 3,
    '{"vector": {"status": "ok", "count": 40, "ms": 4.5}, "lexical": {"status": "ok", "count": 30, "ms": 2.5},
      "rdf": {"status": "empty", "count": 0, "ms": 1.5}}', items,
    jsonb_build_object('understand', x, 'embed', 2 + x, 'search', 4 + x, 'rank', 1 + x, 'render', x, 'total',
        8 + 5 * x), 120, '{"class": "temporal", "language": "en"}', CASE WHEN x > 0.9 THEN 0.3 ELSE 0.6 END,
    CASE WHEN n % 50 = 1 THEN '{"ended": "depth", "combined": {"semantic": 2}, "path": [{"layer": "semantic",
        "depth": 0, "hits": 2, "confidence": 0.4, "ms": 1.5, "late": []}]}'::jsonb END,
    CASE WHEN x < 0.02 THEN '{"reason": "not sure", "near_misses": 4}'::jsonb END,
    CASE WHEN n % 20 = 0 THEN md5((n - 1)::text)::uuid END,
    CASE WHEN n % 50 = 3 THEN '{"trial": "t-1", "profile": "a", "canary": "b", "variant": "control",
        "share": 0.1}'::jsonb END,
    '{"options": {"k": 5}, "clock": "2026-11-25T12:00:00+00:00", "zone": "UTC", "limits": {"search_ms": 300}}',
    jsonb_build_object('index', n, 'graph', n),
    '{"version": "1", "model": "bge-small", "weights": "00ff", "extractor": "light"}'
FROM generate_series($1::bigint, $2::bigint) AS n
CROSS JOIN LATERAL (SELECT random() AS x WHERE n > 0) AS drawn
CROSS JOIN LATERAL (
    SELECT jsonb_agg(id) AS ids,
           jsonb_agg(jsonb_build_object(
               'id', id, 'source', 'vector', 'score', 0.9 - rank * 0.1,
               'parts', '{"dense": 0.8, "keyword": 0.2}'::jsonb, 'ranks', '{"vector": 1}'::jsonb)) AS items
    FROM (SELECT rank, 'm' || CASE WHEN rank = 1 THEN n % 9 + 1 ELSE n * 7919 * rank % 19000 + 1 END AS id
          FROM generate_series(1, 5) AS rank) AS each
) AS chosen
"""
_FEEDBACK = """
INSERT INTO recall_feedback (tenant, corr_id, decision_id, used, wrong, entry_id, at)
SELECT 'default', 'c-' || n, md5(n::text), ARRAY['m1'], ARRAY['m2'], 'e-' || n,
       now() - interval '90 days' * (1 - n::double precision / $1)
FROM generate_series(1, $1::bigint, 100) AS n
"""


async def fill(connection: Connection, rows: int) -> None:
    """So many decisions, with memories and feedback, in a database with the schema and nothing else."""
    began = time.monotonic()
    await connection.execute("SET synchronous_commit = off")
    await connection.execute(_MEMORIES)
    await connection.execute(_ACCESS)
    for first in range(1, rows + 1, _AT_ONCE):
        await connection.execute(_DECISIONS, first, min(first + _AT_ONCE - 1, rows), rows)
        print(f"{min(first + _AT_ONCE - 1, rows):,} decisions after {time.monotonic() - began:.0f} s", flush=True)
    await connection.execute(_FEEDBACK, rows)
    await connection.execute("VACUUM (ANALYZE) recall_decisions, recall_feedback, memories, memory_access")
    print(f"filled after {time.monotonic() - began:.0f} s", flush=True)


async def measure(connection: Connection) -> None:
    """Print the size of the log, and of each question the first run and the median of five, in ms."""
    size = await connection.fetchval("SELECT pg_total_relation_size('recall_decisions')")
    estimate = await connection.fetchval("SELECT reltuples FROM pg_class WHERE oid = 'recall_decisions'::regclass")
    print(f"{estimate:,.0f} decisions in {size / 1e9:.1f} GB")
    for view, sql in QUESTIONS.items():
        spent: list[float] = []
        for _ in range(_REPEATS):
            began = time.perf_counter()
            await connection.fetch(sql)
            spent.append((time.perf_counter() - began) * 1000)
        print(f"{view:28} {median(spent):10.1f} ms, first {spent[0]:10.1f} ms", flush=True)


async def _run(rows: int, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="orion-log-", dir=folder) as made:
        Path(made).chmod(0o755)  # as root, Postgres runs as another user
        async with EmbeddedEngines.start(Path(made) / "data", valkey=False) as engines:
            await migrate(engines.postgres_dsn)
            connection = await open_connection(engines.postgres_dsn, name="bench", statement_timeout_ms=1_800_000)
            try:
                await fill(connection, rows)
                await measure(connection)
            finally:
                await close_connection(connection)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the database is made, and removed")
    given = parser.parse_args()
    asyncio.run(_run(given.rows, given.folder))
