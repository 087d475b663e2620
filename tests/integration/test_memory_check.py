"""Copies of the record: drift found and mended, index and graph made anew beside the live ones and swapped."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orion_recall.cli.main import run
from orion_recall.cli.memory.copies import KINDS
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.graph.vocabulary import ORION
from orion_recall.interfaces import Projection
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import MemoryName, Record
from orion_recall.memory.replicas.maintenance import CopyKeeper, do, find_drift
from orion_recall.memory.replicas.projector import Projector, WriterLock
from orion_recall.memory.replicas.reembed import Built, reembed
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool, borrow, open_pool
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.pipeline import recall
from orion_recall.serving.backends import Opened, open_sources, own_copy
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from orion_recall.values import Change
from tests.stand_ins.memory_changes import MemoryChanges
from tests.stand_ins.model_servers import tei_server
from tests.stand_ins.patient_profiles import patient
from tests.stand_ins.qdrant_process import qdrant_stand_in

pytestmark = pytest.mark.slow

TENANT = "default"
REFLECT = patient("reflect.v1")


@pytest.fixture
async def record(pool: Pool) -> Record:
    record = Record(pool)
    texts = [f"Ana oiled crane {number}." for number in range(12)]
    await record.store([memory(f"m{number}", text) for number, text in enumerate(texts)])
    return record


def memory(name: str, text: str, **fields: Any) -> Any:
    return compose(MemoryV1.model_validate({"id": name, "text": text, "session_id": "s", **fields}), TENANT)


def name(memory_id: str) -> MemoryName:
    return MemoryName(TENANT, memory_id)


def part_of(opened: Opened, kind: str) -> Projection:
    part = opened.index if kind == "index" else opened.graph
    assert part is not None
    return part


async def break_it(record: Record, memory_changes: MemoryChanges, projector: Projector) -> None:
    """Takes m1 away, gives m2 an old version, and puts in m3, which is deleted, and one that nobody knows."""
    await projector.catch_up()
    part = projector.projection
    before = {change.memory.id: change for change in await record.changes(0, 100)}
    await memory_changes.update(TENANT, [Patch(id="m2", changes={"text": "Bo painted the boat."})])
    await memory_changes.delete(TENANT, ["m3"])
    await projector.catch_up()
    position = part.position
    await part.remove([memory_key(TENANT, "m1")])
    ghost = memory("ghost", "Nobody said so.")
    await part.apply([Change(position=position, memory=one) for one in (before["m2"].memory, before["m3"].memory)])
    await part.apply([Change(position=position, memory=ghost)])


async def next_turns(opened: Opened) -> list[tuple[str, str]]:
    assert opened.graph is not None
    turns = "SELECT ?one ?other WHERE { GRAPH ?g { ?a o:next ?b . ?a o:id ?one } GRAPH ?g { ?b o:id ?other } }"
    rows = await opened.graph.select(f"PREFIX o: <{ORION}> {turns}")
    return [(row["one"], row["other"]) for row in rows]


@pytest.mark.parametrize("kind", ["index", "graph"])
async def test_what_differs_is_found_and_mended(record: Record, pool: Pool, data_dir: Path, kind: str) -> None:
    memory_changes = MemoryChanges(pool)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        part = part_of(opened, kind)
        projector = Projector(record, part, copy="test")
        await projector.catch_up()
        assert (await find_drift(record, part)).count == 0
        await break_it(record, memory_changes, projector)

        drift = await find_drift(record, part)
        assert (drift.missing, drift.stale, drift.deleted) == ([name("m1")], [name("m2")], [name("m3")])
        assert drift.unknown == (memory_key(TENANT, "ghost"),)
        assert (drift.held, drift.in_flight, drift.count) == (12, 0, 4)

        found = await do("check", projector, lambda done, total: None)
        assert found["examples"] == {
            "missing": ["default/m1"],
            "stale": ["default/m2"],
            "extra": ["default/m3", f"key {memory_key(TENANT, 'ghost')}"],
        }
        told: list[tuple[int, int]] = []
        mended = await do("repair", projector, lambda done, total: told.append((done, total)))
        assert (mended["missing"], mended["left"]) == (1, 0)
        assert told[-1] == (4, 4)
        assert (await find_drift(record, part)).count == 0
        assert part.position == await record.head(), "the position has not moved"
        assert opened.index is not None
        if kind == "graph":
            assert dict(await next_turns(opened)) == {
                f"m{turn}": f"m{turn + (2 if turn == 2 else 1)}" for turn in range(11) if turn != 3
            }
        if kind == "index":
            views = await opened.index.fetch([memory_key(TENANT, "m2")])
            assert [view.text for view in views.values()] == ["Bo painted the boat."]


async def test_what_is_on_its_way_is_no_drift(record: Record, pool: Pool, data_dir: Path) -> None:
    memory_changes = MemoryChanges(pool)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        projector = Projector(record, part_of(opened, "index"), copy="test")
        assert (await find_drift(record, projector.projection)).in_flight == 12
        await projector.catch_up()
        await record.store([memory("new", "The dentist bought the boat.")])
        await memory_changes.update(TENANT, [Patch(id="m5", changes={"text": "Ana sold crane 5."})])
        await memory_changes.delete(TENANT, ["m7"])
        drift = await find_drift(record, projector.projection)
        assert drift.count == 0
        assert drift.in_flight >= 3
        await projector.catch_up()
        assert (await find_drift(record, projector.projection)).in_flight == 0


@asynccontextmanager
async def worker(record: Record, pool: Pool, settings: Settings) -> AsyncGenerator[tuple[Opened, Projector]]:
    """What a worker runs for its copies; the projector is the index's."""
    async with open_sources(settings) as opened:
        projectors = [Projector(record, part_of(opened, kind), copy=own_copy(settings)) for kind in KINDS]
        keepers = [CopyKeeper(pool, one) for one in projectors]
        tasks = [asyncio.create_task(part.run()) for part in (*projectors, *keepers)]
        try:
            while any(one.lag != 0 for one in projectors):
                await asyncio.sleep(0.02)
            yield opened, projectors[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def check(*arguments: str, data: Path, capsys: Any) -> tuple[int, Any]:
    code = await asyncio.to_thread(run, ["memory", "check", "--json", "--data", str(data), *arguments])
    return code, json.loads(capsys.readouterr().out)


async def test_the_command_asks_the_worker_that_has_the_folder(
    record: Record,
    pool: Pool,
    database: str,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ORION_POSTGRES_DSN", database)
    settings = Settings.read(data_dir=data_dir, postgres_dsn=database)
    async with worker(record, pool, settings) as (_, projector):
        code, found = await check(data=data_dir, capsys=capsys)
        (one,) = [one for one in found["copies"] if one["kind"] == "index"]
        assert (one["ok"], one["held"], one["copy"]) == (True, 12, own_copy(settings))
        async with projector.writing:
            await projector.projection.remove([memory_key(TENANT, "m4")])
        code, found = await check(data=data_dir, capsys=capsys)
        assert (code, found["ok"]) == (1, False)
        (one,) = [one for one in found["copies"] if one["kind"] == "index"]
        assert (one["missing"], one["examples"]) == (1, {"missing": ["default/m4"]})
        _, found = await check("--repair", data=data_dir, capsys=capsys)
        (one,) = [one for one in found["copies"] if one["kind"] == "index"]
        assert (one["ok"], one["missing"], one["left"]) == (True, 1, 0)
        assert memory_key(TENANT, "m4") in await projector.projection.held()
    async with borrow(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM copy_requests") == 0, "who asked has tidied up"


async def cut_short(record: Record, data_dir: Path) -> int:
    """Fills an index, closes it and cuts the mapping of its ids short; how many memories it holds after that.

    The engine finds the last twenty or so again in its log.
    """
    await record.store([memory(f"n{number}", f"Bo painted boat {number}.") for number in range(188)])
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        await Projector(record, part_of(opened, "index"), copy="test").catch_up()
    mappings = next((data_dir / "index").rglob("*id_tracker.mappings"))
    os.truncate(mappings, mappings.stat().st_size // 4)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        return len(await part_of(opened, "index").held())


async def test_a_copy_that_lost_memories_finds_that_out_and_repairs_itself(
    record: Record, pool: Pool, data_dir: Path, caplog: pytest.LogCaptureFixture
):
    assert await cut_short(record, data_dir) < 150, "the engine serves what is left as if nothing had happened"
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        index = part_of(opened, "index")
        projector = Projector(record, index, copy="test")
        check = CopyKeeper(pool, projector, clock=lambda: 1.0)
        assert not await check.check_if_due(), "it has not caught up yet"
        await projector.catch_up()
        assert await check.check_if_due()
        assert (len(await index.held()), index.damage) == (200, None)
        assert projector.drifted > 50, "the metrics tell of it after it is mended, too"
        assert "the index differs from the record, and is repaired: of 200 memories" in caplog.text
        assert not await check.check_if_due(), "nothing is due before its time"
        projector.rebuilds += 1
        assert await check.check_if_due(), "a rebuilt copy is compared at once"


async def test_while_a_copy_cannot_be_repaired_its_hits_count_and_the_answer_is_degraded(
    record: Record, pool: Pool, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    await cut_short(record, data_dir)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        index = part_of(opened, "index")
        projector = Projector(record, index, copy="test")
        await projector.catch_up()

        async def never() -> bool:
            return False

        monkeypatch.setattr(projector, "may_write", never)
        now = 1.0
        check = CopyKeeper(pool, projector, clock=lambda: now)
        await check.check_if_due()
        assert index.damage is not None and "another worker writes" in index.damage
        query = RecallQueryV1(fragment="Who oiled the cranes?")
        found = await recall(query, REFLECT, opened.sources, timeout_s=60)
        assert (found.outcome, bool(found.selection.items)) == ("degraded", True)
        assert all("the index is damaged" in str(one.error) for one in found.reports if one.status == "failed")

        monkeypatch.undo()
        now += 3600
        await check.check_if_due()
        assert index.damage is None
        assert (await recall(query, REFLECT, opened.sources, timeout_s=60)).outcome == "ok"


NOW = 1_780_000_000.0
Answer = tuple[list[str], str]


async def answer(opened: Opened, question: str = "who oiled crane 7 in Voss?") -> Answer:
    profile = loaded_profiles(None)["deep.graph.v1"].profile
    # All that a source finds: of hits with equal scores an index brings any, and a new one brings others.
    # And all the time it needs: what a late source ranked would be missing.
    patient = profile.model_copy(update={"vector_top_k": 100, "source_timeout_ms": 60_000})
    recalled = await recall(RecallQueryV1(fragment=question), patient, opened.sources, now=NOW, timeout_s=60.0)
    silent = {report.source: report for report in recalled.reports if report.status not in ("ok", "empty", "off")}
    assert silent.keys() <= {"sql_timeline"}, silent
    return [item.scored.memory.id for item in recalled.selection.items], recalled.rendered


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
        assert len(answers) > 2
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
        made = await built(record, configured.data_dir, embedder)
        assert made[0] == "waiting"
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
        assert (await find_drift(record, opened.index)).count == 0


TEXTS = [f"The crane of pier {number} was oiled." for number in range(220)]


@pytest.fixture
async def filled(pool: Pool) -> Record:
    """A record of a few more memories than a batch holds."""
    record = Record(pool)
    await record.store([memory(f"m{n}", text, session_id=f"s{n // 3}") for n, text in enumerate(TEXTS)])
    return record


async def project(filled: Record, opened: Opened) -> None:
    assert opened.index is not None
    await Projector(filled, opened.index, copy="test").catch_up()


async def outcome_of(opened: Opened) -> tuple[str, dict[str, str], list[str]]:
    """The outcome, what failed and why, and the ids."""
    query = RecallQueryV1(fragment="who oiled the crane of pier 7?")
    recalled = await recall(query, patient("assist.light.v1"), opened.sources, timeout_s=60)
    failed = {str(report.source): report.error or "" for report in recalled.reports if report.status == "failed"}
    return recalled.outcome, failed, [item.scored.memory.id for item in recalled.selection.items]


async def built(
    filled: Record, folder: Path, embedder: Embedder, progress: list[tuple[int, int]] | None = None
) -> Built:
    told: list[tuple[int, int]] = [] if progress is None else progress
    return await reembed(
        filled,
        folder / "index",
        embedder,
        SparseEncoder(),
        min_free=0,
        advanced=lambda position, head: told.append((position, head)),
    )


async def test_a_worker_answers_by_the_old_model_until_it_starts_with_the_new_one(
    filled: Record, data_dir: Path
) -> None:
    async with tei_server() as tei:
        tei.behave(model="another/model")
        old = Settings.read(data_dir=data_dir)
        new = old.changed(embedder="tei", tei_url=tei.url)
        progress: list[tuple[int, int]] = []
        async with open_sources(old) as working, open_embedder(new) as embedder:
            await project(filled, working)
            before = await outcome_of(working)
            done = await built(filled, data_dir, embedder, progress)
            head = await filled.head()
            assert done == ("waiting", head)
            assert await outcome_of(working) == before
            assert before[0] == "ok"
            assert progress[0] == (0, head)
            assert progress[-1] == (head, head)
            assert len(progress) > 2
        async with open_sources(new) as working, open_embedder(new) as embedder:
            assert working.broken == {}
            assert working.index is not None
            assert working.index.position == head
            outcome, failed, ids = await outcome_of(working)
            assert (outcome, failed, ids[0]) == ("ok", {}, "m7")
        async with open_sources(old) as working:
            assert "was made with another/model" in working.broken["index"]


async def test_without_a_worker_it_takes_the_place_at_once(filled: Record, data_dir: Path) -> None:
    settings = Settings.read(data_dir=data_dir)
    async with open_embedder(settings) as embedder:
        assert (await built(filled, data_dir, embedder))[0] == "swapped"
    async with open_sources(settings) as working:
        outcome, failed, ids = await outcome_of(working)
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
                before = await outcome_of(working)
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
                assert await outcome_of(working) == before
                assert before[0] == "ok"
            async with open_sources(new) as working:
                assert working.broken == {}
                outcome, failed, ids = await outcome_of(working)
                assert (outcome, failed, ids[0]) == ("ok", {}, "m7")
                assert working.index is not None
                await working.index.remove([memory_key("default", "m7")])
            done = (await command())[1]
            assert (done["state"], done["held"], done["left"]) == ("rewritten", 9, 0)
    assert not (data_dir / "index" / "builds").exists()
