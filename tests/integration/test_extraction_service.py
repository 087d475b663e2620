"""A whole worker with an LLM for extraction: memories found at once, edges when they are there; the commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from executor import until
from redis.asyncio import Redis
from serving import caught_up, started
from typer.testing import CliRunner

from orion_recall.cli.memory.app import app
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import SettingsError
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings
from tests.stand_ins.model_servers import ModelServer, chat_server
from tests.stand_ins.patient_profiles import patient_profiles

pytestmark = pytest.mark.slow

KEY = "k-" + "5" * 8


@pytest.fixture
async def chat() -> AsyncGenerator[ModelServer]:
    async with chat_server(KEY) as started:
        yield started


async def test_a_memory_is_found_at_once_and_its_edges_follow(
    bus: Redis,
    bus_alone: EmbeddedEngines,
    database: str,
    pool: Pool,
    chat: ModelServer,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORION_LLM_API_KEY", KEY)
    settings = Settings.read(
        redis_url=bus_alone.redis_url, postgres_dsn=database, data_dir=tmp_path, prefix=prefix, health_port=0,
        refresh_ms=100, extractor="llm", llm_url=chat.url, llm_model="stand-in", llm_timeout_s=20,
        deadline_ms=20_000, profiles_dir=patient_profiles(tmp_path),
    )  # fmt: skip
    chat.behave("hang")
    async with started(settings) as service, RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        receipt = await client.store(
            [
                {"id": "a", "text": "How is Mira?", "speaker": "Bo", "session_id": "s", "occurred_at": 1772366400},
                {
                    "id": "b",
                    "text": "She works at Fjord-Labs.",
                    "speaker": "Ana",
                    "session_id": "s",
                    "occurred_at": 1772366460,
                },
            ]
        )
        assert receipt.stored == 2
        await caught_up(service, receipt.position or 0)
        found = (await client.recall("who works at Fjord-Labs?", profile="reflect.v1")).bundle
        assert "b" in [item.id for item in found.items]
        assert (await Record(pool).get("default", ["b"]))["b"].extracted_by == "light"

    # It was stopped with both in flight; the next one has a server that answers.
    chat.behave()
    async with started(settings) as service:

        async def both() -> bool:
            return await pool.fetchval("SELECT count(*) FROM memories WHERE extracted_by = 'llm'") == 2

        await until(both, "both are extracted by the llm")
        head = await Record(pool).head()
        await caught_up(service, head)
        assert service.observer.url is not None
        async with httpx.AsyncClient(base_url=service.observer.url, verify=False) as health:
            metrics = (await health.get("/metrics")).text
        assert 'orion_recall_extractions_total{extractor="llm",result="extracted"} 2.0' in metrics

        # By command: made due again, and falling back this time.
        chat.behave("refusing")
        run = CliRunner()
        monkeypatch.setenv("ORION_POSTGRES_DSN", database)
        monkeypatch.setenv("ORION_REDIS_URL", bus_alone.redis_url)
        monkeypatch.setenv("ORION_PREFIX", prefix)
        queued = await asyncio.to_thread(run.invoke, app, ["extract", "--id", "b", "--with", "llm"])
        assert queued.exit_code == 0, queued.output
        nobody = await asyncio.to_thread(run.invoke, app, ["extract", "--id", "b", "--with", "spacy"])
        assert isinstance(nobody.exception, SettingsError)
        assert "no running worker extracts with spacy (they have light and llm)" in str(nobody.exception)
        assert "ORION_EXTRACTOR=spacy" in str(nobody.exception)

        async def fell_back() -> bool:
            return (await Record(pool).get("default", ["b"]))["b"].extraction_note is not None

        await until(fell_back, "the memory fell back")
        shown = await asyncio.to_thread(run.invoke, app, ["show", "b"])
        assert "light" in shown.output
        assert "Mira works at Fjord-Labs" in " ".join(shown.output.split())
        chat.behave()
        again = await asyncio.to_thread(run.invoke, app, ["extract", "--fallen-back", "--with", "llm", "--json"])
        assert '"due": 1' in again.output

        async def mended() -> bool:
            return (await Record(pool).get("default", ["b"]))["b"].extraction_note is None

        await until(mended, "the memory is the llm's again")
        missing = await asyncio.to_thread(
            run.invoke, app, ["extract", "--id", "nobody", "--json"], standalone_mode=False
        )
        assert '"missing": [' in missing.output
        assert (missing.return_value, '"due": 0' in missing.output) == (1, True)
