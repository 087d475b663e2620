"""What is recalled is the same after index and graph were made anew, and after a backup was restored.

Ids, order and rendered text are equal, scores within 1e-5, for fifty questions. The search is exact: the engine
builds no graph of neighbours for so few memories, which is looked at. And no hit is cut off: of those with equal
scores an index brings any, and a new one brings others.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
import qdrant_edge as qe
from pydantic import SecretStr

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.sample.timed import sample_memories
from orion_recall.serving.backends import Opened, open_sources
from orion_recall.settings import Settings
from orion_recall.values import Scope
from tests.stand_ins.memory_changes import MemoryChanges

NOW = 1_780_000_000.0
PROFILES = ("deep.graph.v1", "assist.light.v1", "reflect.v1")


class Answer(NamedTuple):
    """What a recall gave: ids and the rendered text, and the scores in the same order."""

    ids: tuple[str, ...]
    rendered: str
    scores: tuple[float, ...]


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="answers", max_size=4)
    yield opened
    await opened.close()


async def filled(pool: Pool) -> list[str]:
    """Stores the sample, changes and deletes some of it; fifty questions about it."""
    record, memory_changes = Record(pool), MemoryChanges(pool)
    moment = datetime.fromtimestamp(NOW, UTC)
    given = [
        compose(MemoryV1.model_validate(one, strict=False), "default") for one in sample_memories(moment, moment)
    ]
    await record.store(given)
    await memory_changes.update(
        "default", [Patch(id=given[5].id, changes={"text": "Mira moved the red crane to Bergen."})]
    )
    await memory_changes.delete("default", [given[9].id])
    words = [one.text.split() for one in given]
    questions = [" ".join(text[start : start + 7]) for text in words for start in (0, 4)]
    return [f"What about {question}?" for question in questions[: 2 * 50 : 2]]


async def answers(opened: Opened, questions: list[str]) -> list[Answer]:
    profiles = loaded_profiles(None)
    assert opened.broken == {}
    found: list[Answer] = []
    for number, question in enumerate(questions):
        profile = profiles[PROFILES[number % len(PROFILES)]].profile
        patient = profile.model_copy(update={"vector_top_k": 100, "source_timeout_ms": 60_000})
        recalled = await recall(RecallQueryV1(fragment=question), patient, opened.sources, now=NOW, timeout_s=30.0)
        assert {report.status for report in recalled.reports} <= {"ok", "off", "empty"}, recalled.reports
        items = recalled.selection.items
        found.append(
            Answer(
                ids=tuple(item.scored.memory.id for item in items),
                rendered=recalled.rendered,
                scores=tuple(item.scored.score for item in items),
            )
        )
    await searched_exactly(opened)
    return found


async def searched_exactly(opened: Opened) -> None:
    """The engine's search gives what a comparison with every vector gives."""
    index = opened.index
    assert isinstance(index, EdgeIndex)
    await index.optimise()
    vector = list(await opened.embedder.embed_query("Who moved the red crane?"))
    request = qe.QueryRequest(
        query=qe.Query.Nearest(vector, using="dense"), limit=100, params=qe.SearchParams(exact=True)
    )
    shard = index._live.checked()  # pyright: ignore[reportPrivateUsage]
    exact = [(point.id, point.score) for point in shard.query(request)]
    assert len(exact) > 60
    assert await index.search_dense(vector, Scope(tenant="default"), 100, -1.0) == exact


def same(before: list[Answer], after: list[Answer]) -> None:
    assert len(before) == 50
    assert sum(len(one.ids) for one in before) > 150, "questions that find nothing prove nothing"
    for one, other in zip(before, after, strict=True):
        assert (other.ids, other.rendered) == (one.ids, one.rendered)
        assert other.scores == pytest.approx(one.scores, abs=1e-5)


async def caught_up(opened: Opened, dsn: str) -> None:
    """What a worker's start does with its copies."""
    pool = await open_pool(dsn, name="start", max_size=2)
    for part in (opened.index, opened.graph):
        assert part is not None
        await Projector(Record(pool), part, copy="test").catch_up()
    await pool.close()


@pytest.mark.slow
async def test_rebuild_and_restore_change_no_answer(
    pool: Pool, database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = await filled(pool)
    first, second = (Path(f"/tmp/orion-test-{uuid4().hex[:12]}") for _ in range(2))
    backup = first / "backup.zip"
    settings = Settings.read(data_dir=first, postgres_dsn=database)
    try:
        async with open_sources(settings) as opened:
            await caught_up(opened, database)
            before = await answers(opened, questions)

        for kind in ("index", "graph"):
            shutil.rmtree(first / kind)
        monkeypatch.setenv("ORION_POSTGRES_DSN", database)
        assert await asyncio.to_thread(run, ["memory", "rebuild", "--json", "--data", str(first)]) == 0
        assert [one["state"] for one in json.loads(capsys.readouterr().out)] == ["swapped", "swapped"]
        async with open_sources(settings) as opened:
            same(before, await answers(opened, questions))

        assert await asyncio.to_thread(run, ["memory", "backup", str(backup)]) == 0
        monkeypatch.delenv("ORION_POSTGRES_DSN")
        assert await asyncio.to_thread(run, ["memory", "restore", str(backup), "--data", str(second)]) == 0
        async with EmbeddedEngines.start(second, valkey=False) as engines:
            restored = settings.changed(data_dir=second, postgres_dsn=SecretStr(engines.postgres_dsn))
            async with open_sources(restored) as opened:
                await caught_up(opened, engines.postgres_dsn)
                same(before, await answers(opened, questions))
    finally:
        shutil.rmtree(first, ignore_errors=True)
        shutil.rmtree(second, ignore_errors=True)
