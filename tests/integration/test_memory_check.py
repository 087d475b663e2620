"""Drift between record and copies: found, mended, and what is on its way is none."""

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
from orion_recall.interfaces import Projection
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.reader import MemoryName, RecordReader
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import CopyKeeper, CopyRequests, do, find_drift
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.recall.pipeline import recall
from orion_recall.serving.backends import Opened, open_sources, own_copy
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key
from orion_recall.values import Change
from tests.stand_ins.memory_changes import MemoryChanges
from tests.stand_ins.patient_profiles import patient

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


@pytest.mark.parametrize("kind", ["index", "graph"])
async def test_what_differs_is_found_and_mended(record: Record, pool: Pool, data_dir: Path, kind: str) -> None:
    reader, memory_changes = RecordReader(pool), MemoryChanges(pool)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        part = part_of(opened, kind)
        projector = Projector(record, part, copy="test")
        await projector.catch_up()
        assert (await find_drift(reader, part)).count == 0
        await break_it(record, memory_changes, projector)

        drift = await find_drift(reader, part)
        assert (drift.missing, drift.stale, drift.deleted) == ([name("m1")], [name("m2")], [name("m3")])
        assert drift.unknown == (memory_key(TENANT, "ghost"),)
        assert (drift.held, drift.in_flight, drift.count) == (12, 0, 4)

        found = await do("check", reader, projector, lambda done, total: None)
        assert found["examples"] == {
            "missing": ["default/m1"],
            "stale": ["default/m2"],
            "extra": ["default/m3", f"key {memory_key(TENANT, 'ghost')}"],
        }
        told: list[tuple[int, int]] = []
        mended = await do("repair", reader, projector, lambda done, total: told.append((done, total)))
        assert (mended["missing"], mended["left"]) == (1, 0)
        assert told[-1] == (4, 4)
        assert (await find_drift(reader, part)).count == 0
        assert part.position == await record.head(), "the position has not moved"
        assert opened.index is not None
        if kind == "index":
            views = await opened.index.fetch([memory_key(TENANT, "m2")])
            assert [view.text for view in views.values()] == ["Bo painted the boat."]


async def test_what_is_on_its_way_is_no_drift(record: Record, pool: Pool, data_dir: Path) -> None:
    reader, memory_changes = RecordReader(pool), MemoryChanges(pool)
    async with open_sources(Settings.read(data_dir=data_dir)) as opened:
        projector = Projector(record, part_of(opened, "index"), copy="test")
        assert (await find_drift(reader, projector.projection)).in_flight == 12
        await projector.catch_up()
        await record.store([memory("new", "The dentist bought the boat.")])
        await memory_changes.update(TENANT, [Patch(id="m5", changes={"text": "Ana sold crane 5."})])
        await memory_changes.delete(TENANT, ["m7"])
        drift = await find_drift(reader, projector.projection)
        assert drift.count == 0
        assert drift.in_flight >= 3
        await projector.catch_up()
        assert (await find_drift(reader, projector.projection)).in_flight == 0


@asynccontextmanager
async def worker(record: Record, pool: Pool, settings: Settings) -> AsyncGenerator[tuple[Opened, Projector]]:
    """What a worker runs for its copies; the projector is the index's."""
    async with open_sources(settings) as opened:
        projectors = [Projector(record, part_of(opened, kind), copy=own_copy(settings)) for kind in KINDS]
        keepers = [CopyKeeper(CopyRequests(pool), RecordReader(pool), one) for one in projectors]
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
        check = CopyKeeper(CopyRequests(pool), RecordReader(pool), projector, clock=lambda: 1.0)
        assert not await check.check_if_due(), "it has not caught up yet"
        await projector.catch_up()
        assert await check.check_if_due()
        assert (len(await index.held()), index.damage) == (200, None)
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
        check = CopyKeeper(CopyRequests(pool), RecordReader(pool), projector, clock=lambda: now)
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
