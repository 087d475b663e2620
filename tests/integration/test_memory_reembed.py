"""A second index by another model, from a real record, beside a worker that goes on answering."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector, WriterLock
from orion_recall.memory.replicas.reembed import Built, reembed
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import open_pool
from orion_recall.recall.pipeline import recall
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from tests.stand_ins.model_servers import tei_server
from tests.stand_ins.patient_profiles import patient
from tests.stand_ins.qdrant_process import qdrant_stand_in

pytestmark = pytest.mark.slow

TEXTS = [f"The crane of pier {number} was oiled." for number in range(220)]


@pytest.fixture
async def record(database: str) -> AsyncGenerator[Record]:
    """A record of a few more memories than a batch holds."""
    pool = await open_pool(database, name="test", min_size=0, max_size=4)
    record = Record(pool)
    memories = [
        compose(MemoryV1(id=f"m{number}", text=text, session_id=f"s{number // 3}"), "default")
        for number, text in enumerate(TEXTS)
    ]
    await record.store(memories)
    yield record
    await pool.close()


async def project(record: Record, opened: Opened) -> None:
    assert opened.index is not None
    await Projector(record, opened.index, copy="test").catch_up()


async def answer(opened: Opened) -> tuple[str, dict[str, str], list[str]]:
    """The outcome, what failed and why, and the ids."""
    query = RecallQueryV1(fragment="who oiled the crane of pier 7?")
    recalled = await recall(query, patient("assist.light.v1"), opened.sources, timeout_s=60)
    failed = {str(report.source): report.error or "" for report in recalled.reports if report.status == "failed"}
    return recalled.outcome, failed, [item.scored.memory.id for item in recalled.selection.items]


async def built(
    record: Record, folder: Path, embedder: Embedder, progress: list[tuple[int, int]] | None = None
) -> Built:
    told: list[tuple[int, int]] = [] if progress is None else progress
    return await reembed(
        record,
        folder / "index",
        embedder,
        SparseEncoder(),
        advanced=lambda position, head: told.append((position, head)),
    )


async def test_a_worker_answers_by_the_old_model_until_it_starts_with_the_new_one(
    record: Record, data_dir: Path
) -> None:
    async with tei_server() as tei:
        tei.behave(model="another/model")
        old = Settings.read(data_dir=data_dir)
        new = old.changed(embedder="tei", tei_url=tei.url)
        progress: list[tuple[int, int]] = []
        async with open_sources(old) as working, open_embedder(new) as embedder:
            await project(record, working)
            before = await answer(working)
            done = await built(record, data_dir, embedder, progress)
            head = await record.head()
            assert done == ("waiting", head)
            assert await answer(working) == before
            assert before[0] == "ok"
            assert progress[0] == (0, head)
            assert progress[-1] == (head, head)
            assert len(progress) > 2
        async with open_sources(new) as working, open_embedder(new) as embedder:
            assert working.broken == {}
            assert working.index is not None
            assert working.index.position == head
            outcome, failed, ids = await answer(working)
            assert (outcome, failed, ids[0]) == ("ok", {}, "m7")
        async with open_sources(old) as working:
            assert "was made with another/model" in working.broken["index"]


async def test_without_a_worker_it_takes_the_place_at_once(record: Record, data_dir: Path) -> None:
    settings = Settings.read(data_dir=data_dir)
    async with open_embedder(settings) as embedder:
        assert (await built(record, data_dir, embedder))[0] == "swapped"
    async with open_sources(settings) as working:
        outcome, failed, ids = await answer(working)
    assert (outcome, failed, ids[0]) == ("ok", {}, "m7")


async def test_on_a_server_a_new_model_gets_a_collection_beside_the_live_one(
    data_dir: Path, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = await open_pool(database, name="test", min_size=0, max_size=1)
    texts = [compose(MemoryV1(id=f"m{number}", text=text), "default") for number, text in enumerate(TEXTS[:9])]
    head = (await Record(pool).store(texts)).position
    await pool.close()

    async def command(**environment: str) -> tuple[int, dict[str, Any], str]:
        for name, value in environment.items():
            monkeypatch.setenv(f"ORION_{name.upper()}", value)
        code = await asyncio.to_thread(run, ["memory", "rebuild", "index", "--json"])
        told = capsys.readouterr()
        return code, json.loads(told.out)[0] if code == 0 else {}, told.err

    with qdrant_stand_in() as server:
        async with tei_server() as tei:
            tei.behave(model="another/model")
            old = Settings.read(data_dir=data_dir, qdrant_url=server.url, postgres_dsn=database)
            new = old.changed(embedder="tei", tei_url=tei.url, qdrant_collection="second")
            first = await command(postgres_dsn=database, qdrant_url=server.url, data_dir=str(data_dir))
            assert (first[1]["state"], first[1]["position"]) == ("built", head)
            async with open_sources(old) as working:
                before = await answer(working)
                code, _, why = await command(embedder="tei", tei_url=tei.url)
                assert code == 1
                assert "give ORION_QDRANT_COLLECTION another name" in why
                lock = WriterLock(database, kind="index", copy=f"{server.url}/second")
                assert await lock.acquire()
                code, _, why = await command(qdrant_collection="second")
                assert (code, "fills " in why) == (2, True)
                await lock.release()
                code, done, _ = await command()
                assert (code, done["state"], done["model"], done["position"]) == (0, "built", "another/model", head)
                assert await answer(working) == before
                assert before[0] == "ok"
            async with open_sources(new) as working:
                assert working.broken == {}
                outcome, failed, ids = await answer(working)
                assert (outcome, failed, ids[0]) == ("ok", {}, "m7")
                assert working.index is not None
                await working.index.remove([memory_key("default", "m7")])
            done = (await command())[1]
            assert (done["state"], done["held"], done["left"]) == ("rewritten", 9, 0)
    assert not (data_dir / "index" / "builds").exists()
