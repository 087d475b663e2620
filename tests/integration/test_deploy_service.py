"""A whole service with no more rights than deploy/ gives it: bus user `worker`, Postgres role `orion_worker`."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deploy_servers import (
    PREFIX,
    GuardedBus,
    guarded_bus,
    guarded_postgres,
    role_dsn,
    role_passwords,
    run_program,
    run_psql,
    session,
)
from executor import Executor, command, until
from serving import caught_up, started

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.decisions.removal import OLD_DECISIONS
from orion_recall.memory.intake.handlers import OLD_REQUESTS
from orion_recall.postgres.periods import Periods, Retention
from orion_recall.postgres.pool import open_pool
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.mesh import FOUNDING, LATER, MeshExecutor, MeshState
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow

DECISION_CHANNELS = ("recall.decision.v1", "orion:recall:telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A running service, and where it runs."""

    service: Service
    bus: GuardedBus
    superuser_dsn: str

    def environment(self, user: str, role: str) -> dict[str, str]:
        """What compose.yaml gives a command that logs in as these."""
        return {
            "ORION_REDIS_URL": self.bus.url(user),
            "ORION_POSTGRES_DSN": role_dsn(self.superuser_dsn, role),
            "ORION_ANALYST_DSN": role_dsn(self.superuser_dsn, "orion_analyst"),
            "ORION_PREFIX": PREFIX,
            "ORION_DATA_DIR": str(self.service.settings.data_dir),
        }


@pytest.fixture(scope="module")
async def deployed() -> AsyncGenerator[Deployed]:
    folder = Path(tempfile.mkdtemp(prefix="orion-deploy-", dir="/tmp"))
    try:
        async with guarded_bus() as bus, guarded_postgres() as dsn:
            assert run_psql(dsn, role_passwords(), "roles.sql", "passwords.sql").returncode == 0
            code, _, err = await run_program({"ORION_POSTGRES_DSN": role_dsn(dsn, "orion_owner")}, "migrate")
            assert code == 0, err
            settings = Settings.read(
                redis_url=bus.url("worker"),
                postgres_dsn=role_dsn(dsn, "orion_worker"),
                data_dir=folder / "data",
                profiles_dir=patient_profiles(folder),
                deadline_ms=20_000,
                prefix=PREFIX,
                refresh_ms=100,
                claim_idle_ms=500,
                acknowledge_ms=30_000,  # a busy machine is not a copy that is behind
                instance="deployed",
                decisions_keep_s=0,
                decision_channels=DECISION_CHANNELS,
            )
            async with started(settings) as service:
                yield Deployed(service=service, bus=bus, superuser_dsn=dsn)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def client(deployed: Deployed) -> AsyncGenerator[RecallClient]:
    async with RecallClient.connect(deployed.bus.url("client"), prefix=PREFIX) as connected:
        yield connected


@pytest.fixture(autouse=True)
async def nothing_was_denied(deployed: Deployed) -> AsyncGenerator[None]:
    """The server's own list of what it denied must not name the worker, the client or the operator."""
    async with connect(deployed.bus.url("admin", "-")) as admin:
        await command(admin, "ACL", "LOG", "RESET")
        yield
        denied = await command(admin, "ACL", "LOG")
    assert [(line[b"username"], line[b"object"]) for line in map(_as_dict, denied)] == []


def _as_dict(line: Any) -> dict[bytes, Any]:
    return dict(zip(line[::2], line[1::2], strict=True))


async def test_store_recall_and_decide(
    deployed: Deployed, client: RecallClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        receipt = await client.store([{"id": "m-mast", "text": "The mast of the Vega was repaired in Tromsø."}])
        assert receipt.stored == 1
        assert (await client.store([{"id": "m-mast", "text": "Another text."}])).stored == 0
        await caught_up(deployed.service, receipt.position or 0)
        reply = await client.recall("what happened to the mast of the Vega?")
        assert reply.error is None
        assert "Tromsø" in reply.bundle.rendered

        async def written() -> bool:
            async with session(deployed.superuser_dsn) as superuser:
                found = await superuser.fetchval(
                    "SELECT count(*) FROM recall_decisions WHERE outcome = 'ok' AND selected_ids @> '[\"m-mast\"]'"
                )
                counted = await superuser.fetchval("SELECT count(*) FROM memory_access WHERE id = 'm-mast'")
            return bool(found and counted)

        await until(written, "a decision and an access, written by the role orion_worker")
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
async def test_an_executor_publishes_as_a_client_and_an_analyst_hears_the_decision(
    deployed: Deployed, state: MeshState
) -> None:
    channel, reply_to = f"{PREFIX}{state.decision_channel}", f"{PREFIX}{state.reply_prefix}:1"
    async with connect(deployed.bus.url("client")) as client, connect(deployed.bus.url("analyst")) as analyst:
        asked = MeshExecutor(client, state).message("what of the mast?", reply_to=reply_to)
        async with (
            Executor(client, PREFIX).listening(reply_to) as replies,
            Executor(analyst, PREFIX).listening(channel) as decisions,
        ):
            await command(client, "PUBLISH", PREFIX + state.request_channel, asked.model_dump_json(by_alias=True))

            async def all_heard() -> bool:
                return bool(replies and decisions)

            await until(all_heard, "a reply and a decision")
            assert replies[0]["correlation_id"] == str(asked.correlation_id)
            assert decisions[0]["payload"]["corr_id"] == str(asked.correlation_id)
    code, out, err = await run_program(deployed.environment("operator", "orion_worker"), "doctor", "--json")
    assert code == 0, err
    assert set(json.loads(out)["channels"]["listeners"].values()) == {1}


async def test_memories_are_changed_and_deleted_and_feedback_is_kept(
    deployed: Deployed, client: RecallClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        receipt = await client.store([{"id": "m-keel", "text": "The keel of the Vega is oak."}])
        await caught_up(deployed.service, receipt.position or 0)
        updated = await client.update(
            [{"id": "m-keel", "text": "The keel is ash."}], idempotency_key="k", actor="bo"
        )
        assert (updated.updated, updated.pending) == (1, False)
        deleted = await client.delete(where={"text": "keel ash"}, expected_count=1, erase=True)
        assert (deleted.deleted, deleted.pending) == (1, False)
        await client.recall("What is the keel of?", correlation_id="c")
        assert (await client.feedback(correlation_id="c", wrong=["m-keel"])).recorded
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_worker_may_delete_what_was_kept_long_enough(deployed: Deployed) -> None:
    async with session(deployed.superuser_dsn) as superuser:
        await superuser.execute(
            "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome) "
            "VALUES (gen_random_uuid(), 'c-old', 'p.v1', 'q', 1, now() - interval '40 days', 'ok')"
        )
        await superuser.execute(
            "INSERT INTO memory_requests (tenant, idempotency_key, request_hash, receipt, at) "
            "VALUES ('default', 'k-old', 'hash', '{}', now() - interval '40 days')"
        )
        pool = await open_pool(role_dsn(deployed.superuser_dsn, "orion_worker"), name="test", max_size=2)
        loops = [Retention(pool, Periods(days=30), rows) for rows in (OLD_DECISIONS, OLD_REQUESTS)]
        running = [asyncio.create_task(loop.run()) for loop in loops]

        async def gone() -> bool:
            return not await superuser.fetchval(
                "SELECT (SELECT count(*) FROM recall_decisions WHERE corr_id = 'c-old') "
                "+ (SELECT count(*) FROM memory_requests WHERE idempotency_key = 'k-old')"
            )

        try:
            await until(gone, "old decisions and answers, deleted by the role orion_worker")
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)
            await pool.close()


async def test_what_cannot_be_read_is_answered_and_kept_and_put_back_by_the_operator(deployed: Deployed) -> None:
    async with connect(deployed.bus.url("client")) as redis:
        await redis.xadd(f"{PREFIX}recall.query.v1", {"envelope": "not JSON"})
    operator = deployed.environment("operator", "orion_worker")

    async def letters() -> list[Any]:
        code, out, err = await run_program(operator, "dead", "list", "--json")
        assert code == 0, err
        return json.loads(out)["letters"]

    async def kept() -> bool:
        return len(await letters()) == 1

    await until(kept, "a dead letter")
    code, out, err = await run_program(operator, "dead", "requeue", "--all", "--json")
    assert (code, len(json.loads(out)["requeued"])) == (0, 1), err
    await until(kept, "the same letter, dead once more")


async def test_the_operator_looks_asks_and_imports(deployed: Deployed, tmp_path: Path) -> None:
    operator = deployed.environment("operator", "orion_worker")
    memories = tmp_path / "memories.jsonl"
    memories.write_text('{"id": "m-imported", "text": "The pilot boat is called Skarv."}\n', "utf-8")
    code, _, err = await run_program(operator, "import", str(memories))
    assert code == 0, err

    async def found() -> bool:
        code, out, err = await run_program(operator, "ask", "what is the pilot boat called?")
        assert code == 0, err
        return "Skarv" in out

    await until(found, "the imported memory")
    code, out, err = await run_program(operator, "status", "--json")
    assert code == 0, err
    status = json.loads(out)
    assert status["bus"]["queries"]["consumers"] == ["deployed"]
    assert status["postgres"]["memories"]["default"] >= 1
