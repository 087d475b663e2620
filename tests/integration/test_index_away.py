"""A whole service whose index cannot be used: the record answers in its place, in the scope, and says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from serving import started_with_client

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import open_pool
from orion_recall.settings import Settings
from orion_recall.telemetry import LOG_WORKER
from tests.stand_ins.patient_profiles import patient_profiles

MEMORIES: list[dict[str, Any]] = [
    {"id": "crane", "text": "The harbour crane needs a new gearbox.", "occurred_at": "2021-03-01T09:00:00Z"},
    {"id": "boat", "text": "Bo sold the boat.", "occurred_at": "2021-03-02T09:00:00Z", "session_id": "s-bo"},
    {"id": "theirs", "text": "Their crane has a gearbox.", "tenant": "umbra"},
]


async def test_a_broken_index_is_stood_in_for_by_the_record(
    service_engines: EmbeddedEngines, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.json").write_text("{}", "utf-8")  # no card of an index
    caplog.set_level(logging.INFO, LOG_WORKER)
    settings = Settings.read(
        redis_url=service_engines.redis_url,
        postgres_dsn=database,  # its copy is behind for as long as its last sign of life counts
        data_dir=tmp_path,
        prefix=f"t-{uuid4().hex}:",
        tenants=("*",),
        default_tenant=f"t-{uuid4().hex}",
        instance="without-index",
        refresh_ms=100,
        reply_ttl_s=60,
        deadline_ms=20_000,
        profiles_dir=patient_profiles(tmp_path),
    )
    theirs = f"t-{uuid4().hex}"
    async with started_with_client(settings) as (service, client):
        assert "index" in service.opened.broken
        for memory in MEMORIES:
            receipt = await client.store([memory | ({"tenant": theirs} if "tenant" in memory else {})])
            assert receipt.stored == 1, receipt
        reply = await client.recall("What does the harbour crane need?", options={})
        elsewhere = await client.recall("Which gearbox?", session_id="s-bo", options={"scope": "session"})
    said = [record for record in caplog.records if record.getMessage().startswith("recall: the index is away")]
    assert [record.__dict__["fields"]["fallback"] for record in said] == [["lexical"], ["lexical"]]
    stats = reply.bundle.stats
    assert stats.outcome == "degraded"
    assert [item.id for item in reply.bundle.items] == ["crane"]
    assert reply.bundle.items[0].source_ref == "record"
    assert stats.sources is not None
    assert {name: one.status for name, one in stats.sources.items()} == {
        "vector": "failed", "lexical": "failed", "rdf": "empty", "sql_timeline": "empty", "late": "off",
    }  # fmt: skip
    assert stats.sources["lexical"].stood_in == "record"
    assert elsewhere.bundle.items == [], "what is outside of the scope is not shown, index or no index"
    pool = await open_pool(database, name="test", max_size=1)
    decided = await pool.fetch(
        "SELECT outcome, sources -> 'lexical' ->> 'stood_in' AS stood_in, "
        "(backend_counts ->> 'lexical')::int AS hits FROM recall_decisions ORDER BY created_at"
    )
    counted = await pool.fetchval("SELECT sum(fallbacks)::int FROM recall_by_source WHERE source = 'lexical'")
    await pool.close()
    assert counted == 2
    assert [tuple(row) for row in decided] == [("degraded", "record", 1), ("degraded", "record", 0)]
