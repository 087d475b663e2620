"""The overview of decisions: figures that are worked out by hand."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from decision_samples import NOON, decision, envelope

from orion_recall.decisions.log import overview_since
from orion_recall.postgres.pool import Pool, open_pool

INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="test", max_size=2)
    yield opened
    await opened.close()


def at(minutes: float, **changes: Any) -> dict[str, Any]:
    return decision(created_at=(NOON + minutes * MINUTE).isoformat(), **changes)


async def test_outcomes_profiles_and_stages_are_counted(pool: Pool) -> None:
    decisions = [
        at(-1, outcome="failed"),  # before
        at(0.5, latency_ms=10, stage_ms={"search": 4.0, "rank": 1.0, "total": 10.0}),
        at(0.9, latency_ms=30, stage_ms={"search": 8.0, "total": 30.0}),
        at(2.1, outcome="empty", latency_ms=20, stage_ms={"search": 6.0, "total": 20.0}),
        at(2.2, outcome="refused", latency_ms=5000, stage_ms={}),
        at(2.3, profile="other.v1", outcome="degraded", latency_ms=7, stage_ms={"search": 2.0}),
        at(2.4, shadow_of=str(uuid4()), latency_ms=900),
        at(2.5, tenant="acme", outcome="empty", latency_ms=50),
    ]
    await pool.execute(INSERT, [envelope(each) for each in decisions])
    found = await overview_since(pool, NOON, tenant="default")
    assert found.outcomes == {"ok": 2, "empty": 1, "refused": 1, "degraded": 1}
    assert found.count == 5
    first, second = found.profiles
    assert (first.profile, first.count, first.empty, first.degraded) == ("reflect.v1", 4, 0.25, 0.0)
    assert (first.p50_ms, first.p95_ms) == (20.0, pytest.approx(29.0))  # what was refused searched nothing
    assert (second.profile, second.degraded, second.p50_ms) == ("other.v1", 1.0, 7.0)
    stages = {one.stage: (one.count, one.p50_ms) for one in found.stages}
    assert stages == {"search": (4, 5.0), "rank": (1, 1.0)}
    assert (await overview_since(pool, NOON)).count == 6
    assert (await overview_since(pool, NOON + timedelta(days=1))).outcomes == {}
