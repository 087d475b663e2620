"""What becomes of memories in the record: changed, replaced, deleted, and what is known of it afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.memory.record.compose import Patch, as_message, compose, content_hash
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.values import Change, Memory
from tests.stand_ins.memory_changes import MemoryChanges

NOON = 1772366400.0
TENANT = "acme"


@pytest.fixture
def record(pool: Pool) -> Record:
    return Record(pool)


@pytest.fixture
def memory_changes(pool: Pool) -> MemoryChanges:
    return MemoryChanges(pool)


def memory(name: str, text: str = "", **fields: Any) -> Memory:
    return compose(MemoryV1.model_validate({"id": name, "text": text or f"text of {name}", **fields}), TENANT)


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
