"""Changed memories are composed before the transaction that writes them, and right whatever happens in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from orion_recall.bus.envelope import decode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import MemoryReceiptV1, MemoryV1
from orion_recall.memory.intake.change import ChangePropagation, UpdateHandler
from orion_recall.memory.record import compose as compose_module
from orion_recall.memory.record.changes import MemoryChanges
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.settings import Settings
from orion_recall.values import Memory

TENANT = "default"
_SESSIONS = "pg_stat_activity WHERE datname = current_database() AND application_name = 'orion-recall:changing'"
_OPEN = f"SELECT count(*) FROM {_SESSIONS} AND xact_start IS NOT NULL"
_LOCKS = (
    "SELECT count(*) FROM pg_locks WHERE relation = 'write_locks'::regclass AND pid IN "
    f"(SELECT pid FROM {_SESSIONS})"
)
Meanwhile = Callable[[], Coroutine[Any, Any, object]]


class Silent:
    """Tells nobody."""

    async def publish(self, positions: object) -> None: ...
    async def reached(self, copies: object) -> None: ...


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="changing", max_size=4)
    yield opened
    await opened.close()


@pytest.fixture
async def onlooker(database: str) -> AsyncGenerator[Pool]:
    """Of another session than those that change something."""
    opened = await open_pool(database, name="looking", max_size=2)
    yield opened
    await opened.close()


@pytest.fixture
def memory_changes(pool: Pool) -> MemoryChanges:
    return MemoryChanges(pool)


@pytest.fixture
def updates(pool: Pool) -> UpdateHandler:
    propagation = ChangePropagation(pool, Silent(), lambda: None)  # pyright: ignore[reportArgumentType]
    return UpdateHandler(pool, propagation, Settings())


@pytest.fixture
async def record(pool: Pool) -> Record:
    """With three memories."""
    record = Record(pool)
    texts = {"a": "Ana works at Fjord Labs.", "b": "Bo sails.", "c": "Cleo sings."}
    given = [MemoryV1(id=name, text=text, tags=("seed",)) for name, text in texts.items()]
    await record.store([compose(one, TENANT) for one in given])
    return record


def composing(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> list[str]:
    """Awaits `meanwhile` on the test's loop whenever a memory is composed; the ids of those that were."""
    loop, composed = asyncio.get_running_loop(), list[str]()

    def watched(message: MemoryV1, tenant: str) -> Memory:
        composed.append(message.id)
        asyncio.run_coroutine_threadsafe(meanwhile(), loop).result(60)
        return compose(message, tenant)

    monkeypatch.setattr(compose_module, "compose", watched)
    return composed


async def told(updates: UpdateHandler, **payload: Any) -> MemoryReceiptV1:
    fields = {b"envelope": json.dumps({"kind": updates.kind, "payload": payload}).encode()}
    entry = Entry(id="1000000-0", fields=fields)
    return await updates.receipt(decode(entry, kind=updates.kind, max_bytes=100_000), 60.0)


async def held(record: Record, name: str) -> Memory:
    return (await record.get(TENANT, [name]))[name]


@pytest.mark.parametrize("how", ["by id", "by query", "memory_changes"])
async def test_while_memories_are_composed_no_transaction_is_open_and_no_lock_is_held(
    how: str,
    record: Record,
    memory_changes: MemoryChanges,
    updates: UpdateHandler,
    onlooker: Pool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = list[tuple[int, int]]()

    async def look() -> None:
        seen.append((await onlooker.fetchval(_OPEN), await onlooker.fetchval(_LOCKS)))

    composed = composing(monkeypatch, look)
    if how == "by id":
        receipt = await told(updates, memories=[{"id": name, "title": "New"} for name in "abc"])
        assert receipt.updated == 3
    elif how == "by query":
        receipt = await told(updates, where={"tags": ["seed"]}, set={"title": "New"}, expected_count=3)
        assert receipt.updated == 3
    else:
        await memory_changes.update(TENANT, [Patch(id=name, changes={"title": "New"}) for name in "abc"])
    assert sorted(composed) == ["a", "b", "c"], "each of them once"
    assert seen == [(0, 0)] * 3
    assert {(await held(record, name)).title for name in "abc"} == {"New"}


async def test_what_another_changes_meanwhile_is_kept_and_only_that_memory_is_composed_again(
    record: Record, memory_changes: MemoryChanges, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = asyncio.Event()

    async def another_changes_a() -> None:
        if not changed.is_set():
            changed.set()
            await MemoryChanges(pool).update(TENANT, [Patch(id="a", changes={"text": "Ana works at Harbour Ltd."})])

    composed = composing(monkeypatch, another_changes_a)
    verdicts = await memory_changes.update(TENANT, [Patch(id=name, changes={"title": "New"}) for name in "abc"])
    assert [one.status for one in verdicts] == ["updated"] * 3
    assert sorted(composed) == ["a", "a", "a", "b", "c"], "by the other one, before it, and after it"
    both = await held(record, "a")
    assert (both.title, both.text, both.version) == ("New", "Ana works at Harbour Ltd.", 3)
    assert "Harbour Ltd" in both.entities
    assert "Fjord Labs" not in both.entities


async def test_a_memory_that_is_changed_or_deleted_meanwhile_is_judged_as_it_is_then(
    record: Record, memory_changes: MemoryChanges, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = asyncio.Event()

    async def another_is_quicker() -> None:
        if not changed.is_set():
            changed.set()
            await MemoryChanges(pool).update(TENANT, [Patch(id="a", changes={"title": "Theirs"})])
            await MemoryChanges(pool).delete(TENANT, ["b"])
            await MemoryChanges(pool).update(TENANT, [Patch(id="c", changes={"title": "Same"})])

    composing(monkeypatch, another_is_quicker)
    wanted = [
        Patch(id="a", changes={"title": "Ours"}, expected_version=1),
        Patch(id="b", changes={"title": "Ours"}),
        Patch(id="c", changes={"title": "Same"}),
    ]
    verdicts = await memory_changes.update(TENANT, wanted)
    assert [one.status for one in verdicts] == ["conflict", "missing", "unchanged"]
    assert (await held(record, "a")).title == "Theirs"
