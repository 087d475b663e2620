"""Comparison of profiles with their shadow profiles, over the queries that both recalled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from orion_recall.postgres.pool import Pool, borrow

_COMPARE: LiteralString = """
SELECT profile, shadow_profile, count(*) AS queries,
       avg(overlap) AS overlap,
       avg(same_first::int)::double precision AS same_first,
       avg((outcome = 'empty')::int)::double precision AS empty,
       avg((shadow_outcome = 'empty')::int)::double precision AS shadow_empty,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY latency_ms) AS p50_ms,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY shadow_latency_ms) AS shadow_p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY shadow_latency_ms) AS shadow_p95_ms
FROM recall_shadows
WHERE ($1::text IS NULL OR profile = $1) AND ($2::timestamptz IS NULL OR created_at >= $2)
GROUP BY profile, shadow_profile ORDER BY profile, shadow_profile
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One profile compared with one shadow profile.

    `overlap` is the mean share of the memories selected by either that both selected (None: neither ever did),
    `same_first` the share of queries with the same best memory, `empty` that of queries without any.
    """

    profile: str
    shadow_profile: str
    queries: int
    overlap: float | None
    same_first: float
    empty: float
    shadow_empty: float
    p50_ms: float
    shadow_p50_ms: float
    p95_ms: float
    shadow_p95_ms: float


async def compare_shadows(
    pool: Pool, *, profile: str | None = None, since: datetime | None = None
) -> list[Comparison]:
    """Every pair of profiles, by name; RecordError when Postgres is away."""
    async with borrow(pool, "comparing shadow profiles") as connection:
        return [Comparison(**dict(row.items())) for row in await connection.fetch(_COMPARE, profile, since)]
