from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.record.sql import LOCK_OUTBOX
from orion_recall.postgres.pool import Connection, Pool, borrow, open_pool
from orion_recall.values import Memory

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


async def test_changes_come_in_order_and_in_pages(record: Record) -> None:
    await record.store([memory(f"m{index}") for index in range(5)])
    seen: list[str] = []
    position = 0
    while page := await record.changes(position, 2):
        assert [change.position for change in page] == sorted(change.position for change in page)
        assert page[0].position > position
        position = page[-1].position
        seen.extend(change.memory.id for change in page)
    assert seen == [f"m{index}" for index in range(5)]
    assert position == await record.head()


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


async def test_the_mirror_shows_memories_with_words_and_time(pool: Pool, record: Record) -> None:
    await record.store([memory("a", "We sailed home", title="Boats", mentioned_at=NOON, tags=["sea"])])
    async with borrow(pool) as connection:
        row = await connection.fetchrow(
            "SELECT id, extract(epoch FROM ts)::float8 AS ts, tags FROM collapse_mirror "
            "WHERE search @@ plainto_tsquery('english', 'boat sailing')"
        )
    assert row is not None
    assert tuple(row) == ("a", NOON, ["sea"])
