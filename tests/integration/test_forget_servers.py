"""Forgetting on servers of others: by a worker's login, by one that may not, and with copies that are gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from orion_recall.bus.connect import connect
from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.postgres.schema import grant_worker_rights

PREFIX = f"t-{uuid4().hex[:8]}:"


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="forget")
    memories = [MemoryV1(id=name, text=f"Ana oiled crane {name}.", user_id="ana") for name in ("m1", "m2")]
    await Record(opened).store([compose(one, "default") for one in memories])
    await Record(opened).store([compose(MemoryV1(id="m1", text="Bo bakes bread."), "north")])
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def configured(database: str, engines: EmbeddedEngines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORION_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    monkeypatch.setenv("ORION_REDIS_URL", engines.redis_url)
    monkeypatch.setenv("ORION_PREFIX", PREFIX)
    monkeypatch.setenv("ORION_DEADLINE_MS", "10")


def as_login(dsn: str, role: str) -> str:
    return dsn.replace("//orion@", f"//{role}@")


@pytest.fixture
async def roles(pool: Pool, database: str) -> AsyncGenerator[None]:
    """A worker's login and one that may only read; both are gone after the test."""
    names = ("orion_worker", "test_onlooker")
    for role in names:
        await pool.execute(f"CREATE ROLE {role} LOGIN")
    assert await grant_worker_rights(database)
    await pool.execute("GRANT USAGE ON SCHEMA orion_recall TO test_onlooker")
    await pool.execute("GRANT SELECT ON ALL TABLES IN SCHEMA orion_recall TO test_onlooker")
    yield
    for role in names:
        await pool.execute(f"DROP OWNED BY {role}")
        await pool.execute(f"DROP ROLE {role}")


async def forget(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    done = await asyncio.to_thread(run, ["memory", "forget", "--json", "--yes", *arguments])
    told = capsys.readouterr()
    assert done == code, told
    return json.loads(told.out)


async def texts(pool: Pool) -> set[tuple[str, str, str]]:
    rows = await pool.fetch("SELECT tenant, id, text FROM memories")
    return {(row["tenant"], row["id"], row["text"]) for row in rows}


async def test_a_workers_login_forgets_and_is_told_what_its_owner_and_operators_have_to_do(
    pool: Pool, database: str, roles: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", as_login(database, "orion_worker"))
    report = await forget(capsys, "--user", "ana")
    assert report["memories"] == 2
    found = {one["place"]: one for one in report["places"]}
    assert "does not own it" in found["Postgres: tables"]["remains"]
    assert "max" not in found["Postgres: write-ahead log"]["remains"]
    assert found["Postgres: write-ahead log"]["until"].startswith("its server reuses the files: after up to")
    assert "BGREWRITEAOF" in found["bus: files of its server"]["until"]
    assert await texts(pool) == {("default", "m1", ""), ("default", "m2", ""), ("north", "m1", "Bo bakes bread.")}


async def test_a_login_that_may_only_read_and_a_tenant_that_is_not_served_change_nothing(
    pool: Pool, database: str, roles: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await texts(pool)
    refused = await forget(capsys, "--tenant", "north", code=2)
    assert "is not served here" in refused["error"]["message"]
    monkeypatch.setenv("ORION_POSTGRES_DSN", as_login(database, "test_onlooker"))
    for arguments in (["--id", "m1"], ["--user", "ana", "--dry-run"]):
        refused = await forget(capsys, *arguments, code=1)
        assert "this login may not forget" in refused["error"]["message"]
    assert await texts(pool) == before
    assert await pool.fetchval("SELECT count(*) FROM memory_forgets") == 0


async def test_a_reply_to_another_tenant_stays_though_it_quotes_the_same_id(
    pool: Pool, engines: EmbeddedEngines, capsys: pytest.CaptureFixture[str]
) -> None:
    for tenant in ("default", "north"):
        await pool.execute(
            "INSERT INTO recall_decisions (id, corr_id, profile, query, selected_ids, latency_ms, created_at, "
            "outcome, tenant) VALUES (gen_random_uuid(), $1, 'p', 'who?', '[\"m1\"]', 1, now(), 'ok', $2)",
            f"c-{tenant}",
            tenant,
        )
    stream = f"{PREFIX}recall.reply.v1:{uuid4().hex}"
    async with connect(engines.redis_url) as redis:
        for tenant in ("default", "north"):
            reply = {"correlation_id": f"c-{tenant}", "payload": {"bundle": {"items": [{"id": "m1"}]}}}
            await redis.xadd(stream, {"envelope": json.dumps(reply)})
        await forget(capsys, "--id", "m1")
        rows = cast("Any", await redis.xrange(stream))
        await redis.delete(stream)
    assert [json.loads(fields[b"envelope"])["correlation_id"] for _, fields in rows] == ["c-north"]
    queries = await pool.fetch("SELECT tenant, query FROM recall_decisions ORDER BY tenant")
    assert [(row["tenant"], row["query"]) for row in queries] == [("default", ""), ("north", "who?")]


async def test_a_copy_whose_worker_is_gone_is_named_and_the_run_stays_open(
    pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    await pool.execute(
        "INSERT INTO projections (copy, kind, position, updated_at) "
        "VALUES ('away:/x', 'index', 1, now() - interval '1 h')"
    )
    report = await forget(capsys, "--id", "m1", code=1)
    assert [one.partition(":")[0] for one in report["unfinished"]] == ["index of away"]
    assert await pool.fetchval("SELECT count(*) FROM memory_forgets WHERE finished_at IS NULL") == 1
    await pool.execute("DELETE FROM projections")
    report = await forget(capsys, "--id", "m1")
    assert report["unfinished"] == []
    rows = await pool.fetch("SELECT finished_at IS NOT NULL AS finished, selector, salt FROM memory_forgets")
    assert [tuple(row.values()) for row in rows] == [(True, None, None)]
    assert await pool.fetchval("SELECT count(*) FROM memory_forget_ids") == 0
