"""What was changed or deleted is shown by no worker, also while its copies have not heard of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from executor import command, until
from redis.asyncio import Redis
from serving import IS_SHARED, caught_up, started

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.contracts import MemoryV1, RecallReplyV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.postgres.pool import Pool
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.values import Change
from tests.stand_ins.patient_profiles import patient_profiles

PROFILES = ("assist.light.v1", "reflect.v1", "deep.graph.v1")
TEXT = "Quentin works at Zephyr Labs."


class Gate:
    """Holds a copy where it is until it is opened."""

    def __init__(self, service: Service, patch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        assert service.opened.index is not None
        self._apply = service.opened.index.apply
        patch.setattr(service.opened.index, "apply", self._wait)

    async def _wait(self, changes: Sequence[Change]) -> None:
        await self.open.wait()
        await self._apply(changes)


async def asked(client: RecallClient, tenant: str) -> dict[str, RecallReplyV1]:
    question, options = "Where does Quentin work? At Zephyr Labs?", {"tenant": tenant}
    return {name: await client.recall(question, profile=name, options=options) for name in PROFILES}


async def stored(client: RecallClient, service: Service, tenant: str) -> None:
    receipt = await client.store([{"id": "m-1", "text": TEXT, "tenant": tenant, "speaker": "Ana"}])
    await caught_up(service, receipt.position or 0)
    assert all(reply.bundle.items for reply in (await asked(client, tenant)).values())


@pytest.mark.parametrize("what", ["delete", "update", "supersede"])
async def test_while_a_copy_is_behind_the_receipt_says_pending_and_the_memory_is_left_out(
    what: str, client: RecallClient, service: Service, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(client, service, tenant)
    gate = Gate(service, monkeypatch)
    # A receipt does not wait for a copy that is held.
    monkeypatch.setattr("orion_recall.memory.intake.handlers._RESERVE_S", 3600.0)
    try:
        if what == "delete":
            receipt = await client.delete(["m-1"], tenant=tenant)
        elif what == "supersede":
            new = {"id": "m-2", "text": "Rosalind works at Umbra Works.", "tenant": tenant, "supersedes": ["m-1"]}
            assert (await client.store([new])).pending is True
            receipt = await client.store([new])
            assert receipt.unchanged == 1
        else:
            receipt = await client.update([{"id": "m-1", "text": "Rosalind works at Umbra Works."}], tenant=tenant)
        assert receipt.pending is True
        for name, reply in (await asked(client, tenant)).items():
            assert reply.bundle.items == [], name
            assert reply.bundle.stats.dropped == {"deleted": 1}, name
    finally:
        gate.open.set()
    await caught_up(service, receipt.position or 0)
    again = await client.recall("Who works at Umbra Works?", options={"tenant": tenant})
    assert [item.id for item in again.bundle.items] == {
        "delete": [], "update": ["m-1"], "supersede": ["m-2"],
    }[what]  # fmt: skip
    assert all("Zephyr" not in reply.bundle.rendered for reply in (await asked(client, tenant)).values())


async def test_what_a_copy_does_not_have_yet_is_pending_and_the_copy_is_named(
    client: RecallClient, service: Service, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = {"id": "m-1", "text": TEXT, "tenant": tenant}
    gate = Gate(service, monkeypatch)
    try:
        new = await client.store([memory], wait_s=0)
        again = await client.store([memory], wait_s=0)
        changed = await client.update([{"id": "m-1", "title": "Work"}], tenant=tenant, wait_s=0)
        nothing = await client.delete(["m-2"], tenant=tenant, wait_s=0)
    finally:
        gate.open.set()
    assert (new.stored, again.unchanged, changed.updated, nothing.missing) == (1, 1, 1, 1)
    for receipt in (new, again, changed):
        assert receipt.pending is True
        assert "index" in receipt.pending_in
    assert (nothing.position, nothing.pending, nothing.pending_in) == (None, None, [])


async def test_what_is_not_pending_is_found_by_the_next_recall(
    client: RecallClient, service: Service, tenant: str
) -> None:
    receipt = await client.store([{"id": "m-1", "text": TEXT, "tenant": tenant, "speaker": "Ana"}])
    assert (receipt.pending, receipt.pending_in) == (False, [])
    for name, reply in (await asked(client, tenant)).items():
        assert [item.id for item in reply.bundle.items] == ["m-1"], name
    again = await client.store([{"id": "m-1", "text": TEXT, "tenant": tenant, "speaker": "Ana"}])
    assert (again.unchanged, again.pending) == (1, False)


@pytest.fixture
def settings(service_engines: EmbeddedEngines, database: str, prefix: str) -> Generator[Settings]:
    folder = Path(tempfile.mkdtemp(prefix="orion-fresh-", dir="/tmp"))
    yield Settings.read(
        redis_url=service_engines.redis_url,
        postgres_dsn=database,
        data_dir=folder,
        profiles_dir=patient_profiles(folder),
        deadline_ms=20_000,
        prefix=prefix,
        claim_idle_ms=300,
        acknowledge_ms=0,
        reply_ttl_s=60,
    )
    shutil.rmtree(folder)


async def test_a_worker_registers_its_copies_before_its_first_query_and_leaves_them_when_it_ends(
    settings: Settings, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Projector, "report", _never_but_for_others(Projector.report))  # it is not this that does

    async def registered() -> dict[str, bool]:
        return {one.kind: one.is_gone for one in await Record(pool).copies()}

    assert await registered() == {}
    async with started(settings):
        assert await registered() == {"index": False, "graph": False}
    assert await registered() == {"index": True, "graph": True}


async def test_what_was_stored_while_a_worker_was_away_is_found_by_its_first_answer(
    settings: Settings, pool: Pool, service_engines: EmbeddedEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = EdgeIndex.apply

    async def slow(index: EdgeIndex, changes: Sequence[Change]) -> None:
        for _ in range(100):  # turns of the loop: a query that was taken meanwhile would have its answer
            await asyncio.sleep(0.005)
        await apply(index, changes)

    await Record(pool).store([compose(MemoryV1(id="m-1", text=TEXT, speaker="Ana"), "default")])
    monkeypatch.setattr(EdgeIndex, "apply", slow)
    async with RecallClient.connect(service_engines.redis_url, prefix=settings.prefix) as client:
        early = asyncio.create_task(asked(client, "default"))
        async with started(settings):
            for name, reply in (await early).items():
                assert [item.id for item in reply.bundle.items] == ["m-1"], name
                assert reply.bundle.items[0].ranks is not None and "vector" in reply.bundle.items[0].ranks


@pytest.mark.slow
async def test_a_worker_that_comes_back_with_old_copies_learns_first_what_is_gone(
    settings: Settings, pool: Pool, service_engines: EmbeddedEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the record; and from the bus while Postgres is away."""
    async with RecallClient.connect(service_engines.redis_url, prefix=settings.prefix) as client:
        async with started(settings) as service:
            await stored(client, service, "default")
            gate = Gate(service, monkeypatch)
            receipt = await client.delete(["m-1"])
            assert receipt.pending is True
            assert not gate.open.is_set()
        # Nothing is brought up to date from now on: what is not shown is known another way.
        monkeypatch.setattr(Record, "changes", _never_but_for_others(Record.changes))
        await _shows_nothing(client, settings.changed(postgres_dsn=None, instance="without-postgres"))
        async with connect(service_engines.redis_url) as redis:
            await redis.unlink(settings.tombstone_stream)
        await _shows_nothing(client, settings.changed(instance="without-tombstones"))


async def _shows_nothing(client: RecallClient, settings: Settings) -> None:
    async with started(settings):
        for name, reply in (await asked(client, "default")).items():
            assert reply.bundle.items == [], (name, settings.instance)


def _never_but_for_others(usual: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Waits for ever, but for the service that all tests share: it would still wait when this test is over."""

    async def wait(*given: Any) -> Any:
        if IS_SHARED.get():
            return await usual(*given)
        return await asyncio.Event().wait()

    return wait


@pytest.fixture
async def redis(engines: EmbeddedEngines) -> AsyncGenerator[Redis]:
    async with connect(engines.redis_url) as opened:
        yield opened


class Reader:
    """A worker that follows the stream: what it knows, and what it was told that copies have reached."""

    def __init__(self, redis: Redis, blocking: Redis, prefix: str) -> None:
        self.known, self.reached = Tombstones(), list[Mapping[int, int]]()
        self.known.reached = self.reached.append
        self.stream = TombstoneStream(redis, blocking, f"{prefix}memory.tombstone.v1", self.known)

    def knows(self, key: int) -> bool:
        return self.known.hides(key, 0)


@asynccontextmanager
async def following(engines: EmbeddedEngines, redis: Redis, prefix: str) -> AsyncGenerator[Reader]:
    async with connect(engines.redis_url, blocking=True) as blocking:
        reader = Reader(redis, blocking, prefix)
        await reader.stream.catch_up()
        task = asyncio.create_task(reader.stream.run(lambda: None))
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def heard(reader: Reader, writer: Reader, key: int) -> None:
    """Everything that was said so far."""
    await writer.stream.publish({key: 1})

    async def knows() -> bool:
        return reader.knows(key)

    await until(knows, "the last word is heard")


async def test_how_far_copies_have_come_is_heard_by_those_who_listen(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    async with following(engines, redis, prefix) as reader:
        await writer.stream.publish({11: 5})
        await writer.stream.reached({7: 5})
        await heard(reader, writer, 12)
        assert reader.knows(11)
        assert reader.reached == writer.reached == [{7: 5}]


async def test_whoever_comes_later_learns_what_was_changed_and_not_where_copies_were_then(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    await writer.stream.publish({11: 5})
    await writer.stream.reached({7: 5})
    async with following(engines, redis, prefix) as reader:
        await heard(reader, writer, 12)
        assert reader.knows(11)
        assert reader.reached == []


async def test_on_a_bus_that_was_away_what_was_said_before_is_no_news(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    async with following(engines, redis, prefix) as reader:
        await heard(reader, writer, 11)
        await writer.stream.reached({7: 5})
        await heard(reader, writer, 12)
        clients = (await command(redis, "CLIENT", "LIST")).decode().splitlines()
        waits = next(line for line in clients if " cmd=xread " in line)
        await command(redis, "CLIENT", "KILL", "ID", waits.partition(" ")[0].removeprefix("id="))
        await writer.stream.publish({13: 6})
        await heard(reader, writer, 14)
        assert reader.knows(13)
        assert reader.reached == [{7: 5}]
