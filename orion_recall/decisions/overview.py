"""An overview of the decisions since a time: outcomes, and latency by profile and by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from orion_recall.postgres.pool import Pool, borrow
from orion_recall.values import Outcome

_OF: LiteralString = """
FROM recall_decisions AS d
WHERE created_at >= $1 AND ($2::text IS NULL OR tenant = $2) AND shadow_of IS NULL
"""
_SEARCHED: LiteralString = "FILTER (WHERE outcome IN ('ok', 'empty', 'degraded', 'failed'))"
_OUTCOMES: LiteralString = f"SELECT outcome, count(*) AS count {_OF} GROUP BY 1 ORDER BY 2 DESC, 1"
_PROFILES: LiteralString = f"""
SELECT profile, count(*) AS count,
       avg((outcome = 'empty')::int)::float8 AS empty, avg((outcome = 'degraded')::int)::float8 AS degraded,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) {_SEARCHED} AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) {_SEARCHED} AS p95_ms
{_OF} GROUP BY 1 ORDER BY 2 DESC, 1
"""
# The stages are those of the newest decisions: of millions they would take minutes.
_STAGES: LiteralString = f"""
SELECT stage.key AS stage, count(*) AS count,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY json_double(stage.value)) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY json_double(stage.value)) AS p95_ms
FROM (SELECT stage_ms {_OF} ORDER BY created_at DESC LIMIT 20000) AS one
CROSS JOIN LATERAL jsonb_each(one.stage_ms) AS stage
WHERE json_double(stage.value) IS NOT NULL AND stage.key <> 'total'
GROUP BY 1 ORDER BY 3 DESC, 1
"""  # noqa: S608 (texts of ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFigures:
    """The decisions under one profile; `empty` and `degraded` are shares, the latencies of those that searched."""

    profile: str
    count: int
    empty: float
    degraded: float
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """The milliseconds of one stage, over the decisions that had it."""

    stage: str
    count: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The decisions since a time, without those of shadow profiles."""

    outcomes: Mapping[Outcome, int]
    profiles: tuple[ProfileFigures, ...]
    stages: tuple[StageFigures, ...]

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())


async def overview_since(pool: Pool, since: datetime, *, tenant: str | None = None) -> Overview:
    """The decisions since a time, of one tenant or of all. RecordError when Postgres is away."""
    async with borrow(pool, "reading decisions") as connection:
        outcomes = await connection.fetch(_OUTCOMES, since, tenant)
        profiles = await connection.fetch(_PROFILES, since, tenant)
        stages = await connection.fetch(_STAGES, since, tenant)
    return Overview(
        outcomes={row["outcome"]: row["count"] for row in outcomes},
        profiles=tuple(ProfileFigures(**dict(row.items())) for row in profiles),
        stages=tuple(StageFigures(**dict(row.items())) for row in stages),
    )
