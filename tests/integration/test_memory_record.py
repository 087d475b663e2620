"""Memories in the record: stored, changed, replaced, deleted, and what copies get to know of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import Patch, as_message, compose, content_hash
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.sql import LOCK_OUTBOX
from orion_recall.memory.replicas import projector
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Connection, Pool, borrow, open_pool
from orion_recall.values import Change, Memory
from tests.samples.index_kinds import snapshot
from tests.samples.source_samples import ALL, HashingEmbedder, key
from tests.stand_ins.memory_changes import MemoryChanges

NOON = 1772366400.0


@pytest.fixture
def record(pool: Pool) -> Record:
    return Record(pool)


def memory(name: str, text: str = "", **fields: Any) -> Memory:
    raw = {"id": name, "text": text or f"text of {name}", **fields}
    return compose(MemoryV1.model_validate(raw), "acme")


def turn(name: str, minute: float | None = None, **fields: Any) -> Memory:
    at = None if minute is None else NOON + 60 * minute
    return memory(name, session_id="s", **({"occurred_at": at} if at else {}), **fields)


async def beside(record: Record) -> dict[str, tuple[str | None, str | None]]:
    """Each memory's neighbours as its latest change has them."""
    return {
        change.memory.id: (change.previous and change.previous.id, change.following and change.following.id)
        for change in await record.changes(0, 1000)
    }


async def test_a_memory_comes_back_as_it_was_stored(record: Record) -> None:
    full = memory(
        "a", "I work at Fjord Labs.", title="Work", speaker="Ana", session_id="s", node_id="n", user_id="u",
        agent_id="ag", run_id="r", occurred_at=NOON + 0.25, occurred_until=NOON + 9, mentioned_at=NOON + 99,
        tags=["job", 'q"uote,{}'], entities=["fjord"], source="chat", uri="x:1", kind="world",
        metadata={"deep": [{"n": 1.5, "t": "\\u0000", "none": None}]},
    )  # fmt: skip
    bare = memory("b", "plain")
    result = await record.store([full, bare])
    assert [(one.id, one.status, one.reason) for one in result.verdicts] == [
        ("a", "stored", None),
        ("b", "stored", None),
    ]
    assert await record.get("acme", ["b", "a", "none"]) == {"a": full, "b": bare}
    assert await record.get("other", ["a"]) == {}


async def test_the_same_content_is_unchanged_and_other_content_is_a_conflict(record: Record) -> None:
    first = await record.store([memory("a"), memory("b")])
    again = await record.store([memory("a"), memory("b", "other"), memory("c")])
    assert [one.status for one in again.verdicts] == ["unchanged", "conflict", "stored"]
    assert again.verdicts[1].reason is not None
    assert first.position is not None
    assert again.position == await record.head() > first.position
    assert (await record.get("acme", ["b"]))["b"].text == "text of b"


async def test_of_equal_ids_in_one_batch_the_first_is_stored(record: Record) -> None:
    result = await record.store([memory("a"), memory("a"), memory("a", "other")])
    assert [one.status for one in result.verdicts] == ["stored", "unchanged", "conflict"]
    assert [change.memory.id for change in await record.changes(0, 10)] == ["a"]


async def test_what_postgres_refuses_is_set_aside_alone(record: Record) -> None:
    # Too long for a row of the primary key, though the contract allows it; random, so it does not compress.
    long_id = "".join(chr(0x20000 + index * 7919 % 40_000) for index in range(512))
    batch = [memory(f"m{index}") for index in range(9)]
    batch.insert(4, memory(long_id, tenant=long_id[::-1]))
    result = await record.store(batch)
    assert [one.status for one in result.verdicts] == ["stored"] * 4 + ["rejected"] + ["stored"] * 5
    assert "Postgres" in str(result.verdicts[4].reason)
    assert [change.memory.id for change in await record.changes(0, 100)] == [f"m{n}" for n in range(9)]
    assert result.position == await record.head()


async def test_a_change_carries_the_turns_beside_it(record: Record) -> None:
    await record.store([
        turn("late", 9, speaker="Ana"), turn("early", 1), turn("same-1", 5), turn("same-2", 5),
        turn("undated-1"), turn("undated-2"), turn("elsewhere", 4, tenant="other"),
        memory("alone", occurred_at=NOON), turn("mentioned", None, mentioned_at=NOON + 360),
    ])  # fmt: skip
    assert await beside(record) == {
        "undated-1": (None, "undated-2"),
        "undated-2": ("undated-1", "early"),
        "early": ("undated-2", "same-1"),
        "same-1": ("early", "same-2"),
        "same-2": ("same-1", "mentioned"),
        "mentioned": ("same-2", "late"),
        "late": ("mentioned", None),
        "elsewhere": (None, None),
        "alone": (None, None),
    }
    change = next(one for one in await record.changes(0, 100) if one.memory.id == "mentioned")
    assert change.following is not None
    assert (change.following.text, change.following.speaker) == ("text of late", "Ana")


async def test_turns_beside_a_new_one_are_told_again(record: Record) -> None:
    await record.store([turn("t1", 1), turn("t4", 4), turn("t5", 5), turn("t0", 0)])
    before = await record.head()
    result = await record.store([turn("t2", 2), turn("t3", 3)])
    told = await record.changes(before, 100)
    assert [(change.memory.id, change.previous and change.previous.id) for change in told] == [
        ("t2", "t1"), ("t3", "t2"), ("t1", "t0"), ("t4", "t3"),
    ]  # fmt: skip
    assert result.position == told[1].position
    assert {name: pair for name, pair in (await beside(record)).items() if name in ("t1", "t4")} == {
        "t1": ("t0", "t2"), "t4": ("t3", "t5"),
    }  # fmt: skip


async def waiting_for_a_lock(connection: Connection, pid: int) -> bool:
    found = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1", pid)
    return bool(found)


async def test_a_reader_never_misses_a_position_that_commits_late(database: str, record: Record) -> None:
    slow = await open_pool(database, name="slow", max_size=1)
    quick = await open_pool(database, name="quick", max_size=1)
    try:
        quick_pid = await quick.fetchval("SELECT pg_backend_pid()")
        async with borrow(slow) as connection:
            async with connection.transaction():
                # What another writer does, stopped before its commit: it has its position already.
                await connection.execute(LOCK_OUTBOX)
                held = await connection.fetchval(
                    "INSERT INTO outbox (tenant, memory_id, op) VALUES ('acme', 'slow', 'upsert') "
                    "RETURNING position"
                )
                storing = asyncio.create_task(Record(quick).store([memory("quick")]))
                async with asyncio.timeout(30):
                    while not await waiting_for_a_lock(connection, quick_pid):
                        await asyncio.sleep(0.005)
                assert await record.head() == 0
            result = await storing
        assert result.position is not None
        assert result.position > held
    finally:
        await slow.close()
        await quick.close()


async def test_two_writers_of_one_id_store_it_once(record: Record) -> None:
    results = await asyncio.gather(*(record.store([memory("a")]) for _ in range(4)))
    assert sorted(one.verdicts[0].status for one in results) == ["stored", *["unchanged"] * 3]
    assert len({one.position for one in results}) == 1


async def test_accesses_are_counted(pool: Pool, record: Record) -> None:
    await record.touch("acme", ["a", "b", "a"])
    await record.touch("acme", ["b"])
    await record.touch("other", ["b"])
    await record.touch("acme", [])
    async with borrow(pool) as connection:
        rows = await connection.fetch("SELECT tenant, id, count FROM memory_access ORDER BY tenant, id")
    assert [tuple(row) for row in rows] == [("acme", "a", 2), ("acme", "b", 2), ("other", "b", 1)]


TENANT = "acme"


@pytest.fixture
def memory_changes(pool: Pool) -> MemoryChanges:
    return MemoryChanges(pool)


async def held(record: Record, name: str) -> Memory:
    return (await record.get(TENANT, [name]))[name]


async def latest(record: Record, after: int = 0) -> dict[str, Change]:
    return {change.memory.id: change for change in await record.changes(after, 1000)}


async def steps(memory_changes: MemoryChanges, name: str) -> list[tuple[int, str]]:
    return [(step.version, step.op) for step in await memory_changes.history(TENANT, name)]


async def test_a_changed_memory_has_all_that_follows_from_its_text_anew(
    record: Record, memory_changes: MemoryChanges
) -> None:
    await record.store([memory("a", "Ana works at Fjord Labs.", title="Work", tags=["job"], entities=["Oslo"])])
    (verdict,) = await memory_changes.update(
        TENANT, [Patch(id="a", changes={"text": "Ana works at Harbour Ltd.", "title": None})], actor="bo"
    )
    assert verdict.status == "updated"
    now = await held(record, "a")
    assert (now.text, now.title, now.tags, now.version) == ("Ana works at Harbour Ltd.", None, ("job",), 2)
    assert now.entities == ("Ana", "Harbour Ltd", "Oslo")
    assert now.text_hash == memory("x", "Ana works at Harbour Ltd.").text_hash
    assert now.content_hash == content_hash(as_message(now))
    first, second = await memory_changes.history(TENANT, "a")
    assert (first.op, first.before, first.version) == ("add", None, 1)
    assert (second.op, second.actor, second.version) == ("update", "bo", 2)
    assert first.after == second.before
    assert second.before is not None and second.after is not None
    assert (second.before["text"], second.after["text"]) == (
        "Ana works at Fjord Labs.",
        "Ana works at Harbour Ltd.",
    )
    assert "search" not in second.before


async def test_every_patch_is_judged_alone(record: Record, memory_changes: MemoryChanges) -> None:
    await record.store([memory(name) for name in "abcde"])
    await memory_changes.delete(TENANT, ["b"])
    verdicts = await memory_changes.update(
        TENANT,
        [
            Patch(id="a", changes={"text": "new"}),
            Patch(id="b", changes={"text": "new"}),
            Patch(id="nobody", changes={"text": "new"}),
            Patch(id="c", changes={"text": "new"}, expected_version=7),
            Patch(id="d", changes={"text": "   "}),
            Patch(id="e", changes={"occurred_at": "yesterday"}),
            Patch(id="a", changes={"text": "newer"}),
        ],
    )
    assert [verdict.status for verdict in verdicts] == [
        "updated", "missing", "missing", "conflict", "rejected", "rejected", "conflict",
    ]  # fmt: skip
    assert "version 1" in (verdicts[3].reason or "")
    assert "occurred_at" in (verdicts[5].reason or "")
    assert [(await held(record, name)).version for name in "acde"] == [2, 1, 1, 1]


async def test_a_deleted_memory_goes_out_of_the_projections_and_never_comes_back(
    record: Record, memory_changes: MemoryChanges
) -> None:
    turns = [memory(name, session_id="s", occurred_at=NOON + place) for place, name in enumerate("abc")]
    await record.store(turns)
    before = await record.head()
    found, missing = await memory_changes.delete(TENANT, ["b", "nobody"], actor="bo", why="wrong")
    assert (found.status, missing.status) == ("deleted", "missing")
    told = await latest(record, before)
    assert not told["b"].memory.is_live
    # The turns beside it are beside each other now.
    assert told["a"].following is not None and told["a"].following.id == "c"
    assert told["c"].previous is not None and told["c"].previous.id == "a"
    (verdict,) = (await record.store([turns[1]])).verdicts
    assert (verdict.status, verdict.reason is not None and "never comes back" in verdict.reason) == (
        "conflict",
        True,
    )
    assert (await memory_changes.history(TENANT, "b"))[-1].lineage == {"reason": "wrong"}


@asynccontextmanager
async def following(record: Record, folder: Path) -> AsyncGenerator[tuple[EdgeIndex, Projector]]:
    """An index in the folder, and what brings it to where the record is."""
    index = EdgeIndex(folder / "index", HashingEmbedder(), SparseEncoder())
    await index.open()
    try:
        yield index, Projector(record, index, copy="test")
    finally:
        await index.close()


async def test_an_index_that_is_made_anew_from_the_record_is_as_the_one_that_was_deleted(
    record: Record, memory_changes: MemoryChanges, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane = {"text": "The harbour crane has a new gearbox from Bergen.", "entities": ["Harbour Works"]}
    async with following(record, folder) as (index, follower):
        await record.store(ALL)
        await follower.catch_up()
        await memory_changes.update(TENANT, [Patch(id="crane", changes=crane)])
        await follower.catch_up()
        await memory_changes.delete(TENANT, ["shed"])
        await follower.catch_up()
        await record.store([turn("turn-1", 1), memory("new", "The crane of Fjord Labs.", session_id="s1")])
        await follower.catch_up()
        held, answers = await index.held(), await snapshot(index)
    versions = {"crane": 2, "order": 1, "turn-1": 1, "new": 1}
    assert held == {key(name): version for name, version in versions.items()} | {key("crane", "other"): 1}
    shutil.rmtree(folder / "index")
    monkeypatch.setattr(projector, "_AT_ONCE", 2)  # in pages, each of them made ready while another is written
    async with following(record, folder) as (index, follower):
        assert (index.position, index.count) == (0, 0)
        assert await follower.catch_up() == await record.head()
        assert (await index.held(), await snapshot(index)) == (held, answers)


async def test_an_erased_memory_leaves_no_word_in_record_and_history(
    record: Record, memory_changes: MemoryChanges, pool: Pool
) -> None:
    await record.store([memory("a", "A zeppelin.", title="Zeppelin", speaker="Zeppelin", tags=["zeppelin"])])
    await memory_changes.update(TENANT, [Patch(id="a", changes={"text": "The zeppelin again."})])
    for _ in range(2):
        await memory_changes.delete(TENANT, ["a"], erase=True)
    async with borrow(pool) as connection:
        for table in ("memories", "memory_history", "memory_requests", "outbox"):
            found = await connection.fetchval(
                f"SELECT count(*) FROM {table} t WHERE lower(t::text) LIKE '%zeppelin%'"
            )
            assert found == 0, table
    assert await steps(memory_changes, "a") == [(1, "add"), (2, "update"), (3, "delete"), (4, "erase")]


async def test_a_memory_takes_the_place_of_others(record: Record, memory_changes: MemoryChanges) -> None:
    await record.store([memory("old", session_id="s"), memory("older")])
    before = await record.head()
    (verdict,) = (await record.store([memory("new", supersedes=["old", "older", "nobody"])])).verdicts
    assert verdict.status == "stored"
    assert verdict.reason is not None and "'nobody'" in verdict.reason
    assert (await held(record, "old")).superseded_by == "new"
    told = await latest(record, before)
    assert [name for name, change in told.items() if not change.memory.is_live] == ["old", "older"]
    assert await steps(memory_changes, "old") == [(1, "add"), (2, "supersede")]
    (verdict,) = await memory_changes.update(TENANT, [Patch(id="old", changes={"text": "x"})])
    assert verdict.status == "conflict" and "'new'" in (verdict.reason or "")


async def test_what_was_superseded_is_told_with_its_position_also_when_the_batch_comes_again(
    record: Record, memory_changes: MemoryChanges
) -> None:
    await record.store([memory("old"), memory("older"), memory("gone")])
    await memory_changes.delete(TENANT, ["gone"])
    batch = [memory("new", supersedes=["old", "older", "gone"]), memory("plain")]
    first = await record.store(batch)
    assert first.superseded == {(TENANT, "old"), (TENANT, "older")}
    assert first.position == await record.head()
    assert "'gone' was deleted before" in str(first.verdicts[0].reason)
    again = await record.store(batch)
    assert [one.status for one in again.verdicts] == ["unchanged", "unchanged"]
    assert (again.superseded, again.position) == (first.superseded, first.position)
    late = await record.store([memory("late", supersedes=["old"])])
    assert "'new' supersedes 'old' already" in str(late.verdicts[0].reason)
    assert (late.superseded, (await record.store([memory("plain")])).superseded) == (frozenset(), frozenset())


async def test_of_a_circle_the_last_one_stays(record: Record) -> None:
    circle = [memory("a", supersedes=["c"]), memory("b", supersedes=["a"]), memory("c", supersedes=["b"])]
    told = await record.store(circle)
    assert [one.reason for one in told.verdicts] == [
        None, None, "supersedes: 'b' supersedes this one itself",
    ]  # fmt: skip
    assert [(await held(record, name)).superseded_by for name in "abc"] == ["b", None, "a"]
