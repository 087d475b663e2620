"""Index and graph made anew beside the live ones, and swapped: under a running worker, and without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import CopyKeeper, CopyRequests, find_drift
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.replicas.reembed import reembed
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.serving.backends import Opened, open_sources, own_copy
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from tests.stand_ins.memory_changes import MemoryChanges

pytestmark = pytest.mark.slow

TENANT = "default"
NOW = 1_780_000_000.0
Answer = tuple[list[str], str]


@pytest.fixture
async def record(pool: Pool) -> Record:
    record = Record(pool)
    people, places = ("Ana", "Bo", "Mira"), ("Bergen", "Oslo", "Tromsø", "Voss")
    await record.store(
        [
            memory(f"m{number}", f"{people[number % 3]} oiled crane {number} in {places[number % 4]}.")
            for number in range(40)
        ]
    )
    return record


def memory(name: str, text: str) -> Any:
    return compose(MemoryV1(id=name, text=text, session_id="s", speaker="Bo"), TENANT)


async def answer(opened: Opened, question: str = "who oiled crane 7 in Voss?") -> Answer:
    profile = loaded_profiles(None)["deep.graph.v1"].profile
    # All that a source finds: of hits with equal scores an index brings any, and a new one brings others.
    # And all the time it needs: what a late source ranked would be missing.
    patient = profile.model_copy(update={"vector_top_k": 100, "source_timeout_ms": 60_000})
    recalled = await recall(RecallQueryV1(fragment=question), patient, opened.sources, now=NOW, timeout_s=60.0)
    silent = {report.source: report for report in recalled.reports if report.status not in ("ok", "empty", "off")}
    assert silent.keys() <= {"sql_timeline"}, silent
    return [item.scored.memory.id for item in recalled.selection.items], recalled.rendered


@asynccontextmanager
async def worker(record: Record, pool: Pool, settings: Settings) -> AsyncGenerator[tuple[Opened, list[Projector]]]:
    """What a worker runs for its copies."""
    async with open_sources(settings) as opened:
        assert opened.index is not None
        assert opened.graph is not None
        projectors = [Projector(record, part, copy=own_copy(settings)) for part in (opened.index, opened.graph)]
        keepers = [CopyKeeper(CopyRequests(pool), RecordReader(pool), one) for one in projectors]
        tasks = [asyncio.create_task(part.run()) for part in (*projectors, *keepers)]
        try:
            while any(one.lag != 0 for one in projectors):
                await asyncio.sleep(0.02)
            yield opened, projectors
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def configured(database: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    monkeypatch.setenv("ORION_DATA_DIR", str(data_dir))
    return Settings.read(data_dir=data_dir, postgres_dsn=database)


async def rebuild(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    code = await asyncio.to_thread(run, ["memory", "rebuild", "--json", *arguments])
    told = capsys.readouterr()
    assert code == 0, told
    return json.loads(told.out)


async def test_a_running_worker_takes_the_new_copies_over_and_answers_all_the_while(
    record: Record, pool: Pool, configured: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = configured.data_dir
    async with worker(record, pool, configured) as (opened, _):
        before = await answer(opened)
        answers: list[Answer] = []

        async def go_on() -> None:
            while True:
                answers.append(await answer(opened))
                await asyncio.sleep(0.05)  # else the rebuild would have half of the processor

        asking = asyncio.create_task(go_on())
        done = await rebuild(capsys)
        assert [(one["kind"], one["state"]) for one in done] == [("index", "taken"), ("graph", "taken")]
        (done,) = await rebuild(capsys, "graph")  # the places take turns
        assert done["state"] == "taken"
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert len(answers) > 5
        assert {json.dumps(one) for one in answers} == {json.dumps(before)}
        await record.store([memory("new", "Mira sold the old boat to a dentist.")])
        while "new" not in (await answer(opened, "who sold the old boat to a dentist?"))[0]:
            await asyncio.sleep(0.05)
    for kind in ("index", "graph"):
        assert len(list((folder / kind / "builds").iterdir())) == 1, "the old ones are gone"
        assert not (folder / kind / "store").exists()
        assert not (folder / kind / "shard").exists()
    async with open_sources(configured) as opened:
        assert opened.broken == {}
        assert "new" in (await answer(opened, "who sold the old boat to a dentist?"))[0]


async def test_what_came_while_it_was_built_is_there_the_moment_it_is_taken(
    record: Record, pool: Pool, configured: Settings
) -> None:
    async with open_sources(configured) as opened, open_embedder(configured) as embedder:
        assert opened.index is not None
        projector = Projector(record, opened.index, copy="test")
        await projector.catch_up()
        built = await reembed(record, configured.data_dir / "index", embedder, SparseEncoder())
        assert built[0] == "waiting"
        await record.store([memory("new", "Mira sold the old boat.")])
        await MemoryChanges(pool).delete(TENANT, ["m7"])
        await projector.catch_up()
        async with projector.writing:
            assert await projector.swap_in_rebuild()
            assert not await projector.swap_in_rebuild()
        assert opened.index.position == await record.head()
        held = await opened.index.held()
        assert memory_key(TENANT, "new") in held
        assert memory_key(TENANT, "m7") not in held
        assert (await find_drift(RecordReader(pool), opened.index)).count == 0
