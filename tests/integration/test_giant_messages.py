"""Giants on a running worker: answered, decided and dead-lettered as their heads, and read on another thread."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from executor import Executor, command, info, rows, until
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus import delivery
from orion_recall.bus.connect import connect
from orion_recall.bus.envelope import Received
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.heartbeat import BUS_FULL, read_heartbeats
from orion_recall.cli.serving.status import problems_of, read_workers
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import BusRefused
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.settings import Settings
from tests.stand_ins.redis_servers import RedisServer

pytestmark = pytest.mark.slow

QUESTION: dict[str, Any] = {"fragment": "Who feeds the gulls?", "options": {}}


@pytest.fixture
def settings(bus_alone: EmbeddedEngines, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("orion_recall.bus.group_reader.BLOCK_MS", 100)
    return quick_settings(bus_alone.redis_url)


@pytest.fixture
async def executor(bus: Redis, settings: Settings, tokens: TokenCounter) -> AsyncGenerator[Executor]:
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(OneMemory(), tokens)):
        yield executor
    await executor.close()


@pytest.mark.parametrize("tags", [40_000, 2_000_000, 15_000_000])
async def test_a_giant_query_is_answered_to_its_sender_decided_and_kept_as_its_head(
    executor: Executor, tags: int
) -> None:
    message = json.dumps(executor.message({}, correlation_id="c-giant")).removesuffix("{}}").encode()
    message += b'{"fragment": "a", "options": {"tags": [' + b", ".join([b"1"] * tags) + b"]}}}"
    ended = await executor.ended(await executor.add({"envelope": message}))
    (reply,) = ended.own
    assert reply["correlation_id"] == "c-giant"
    assert reply["payload"]["error"]["type"] == "invalid"
    assert ended.decision["outcome"] == "invalid"
    assert "too many values" in ended.decision["error"] or "at most 262144 are read" in ended.decision["error"]
    (letter,) = ended.letters
    if len(message) <= 262_144:
        assert letter[b"field:envelope"] == message
        return
    assert int(letter[b"message_bytes"]) == len(message) + len("envelope")
    assert letter[b"message_sha256"] == hashlib.sha256(message).hexdigest().encode()
    assert message.startswith(letter[b"message_head"])
    assert len(letter[b"message_head"]) == 4096
    assert sum(len(value) for value in letter.values()) < 8192
    assert (await executor.answer(QUESTION))["bundle"]["items"]


@pytest.mark.parametrize(("padding", "apart"), [(10, False), (100_000, True)])
async def test_a_large_query_is_read_on_another_thread(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, padding: int, apart: bool
) -> None:
    threads: list[str] = []
    decode = delivery.decode

    def noting(*args: Any, **options: Any) -> Received:
        threads.append(threading.current_thread().name)
        return decode(*args, **options)

    monkeypatch.setattr(delivery, "decode", noting)
    assert (await executor.answer(QUESTION | {"more": "x" * padding}))["bundle"]["items"]
    assert [name.startswith("orion-large-message") for name in threads] == [apart]


@pytest.mark.parametrize("order", ["payload last", "payload first"])
async def test_a_giant_whose_options_stand_after_it_gets_an_error_and_one_without_options_does_not(
    executor: Executor, order: str
) -> None:
    cases: Sequence[tuple[dict[str, Any], bool]] = (
        ({"options": {}}, True), ({}, False), ({"more": '"options": {'}, False),
    )  # fmt: skip
    for options, has_error in cases:
        message = executor.message({"fragment": "a", "text": "x" * 300_000, **options}, correlation_id="c-last")
        if order == "payload first":
            message = {"payload": message.pop("payload"), **message}
        ended = await executor.ended(await executor.add({"envelope": json.dumps(message).encode()}))
        (reply,) = ended.own
        assert ("error" in reply["payload"], ended.decision["outcome"]) == (has_error, "invalid")


async def test_of_an_entry_with_very_many_fields_the_first_are_read(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []
    decode = delivery.decode

    def noting(entry: Entry, **options: Any) -> Received:
        read.append((len(entry.fields), entry.left_out))
        return decode(entry, **options)

    monkeypatch.setattr(delivery, "decode", noting)
    further = {f"f{number}": "" for number in range(100_000)}
    message = json.dumps(executor.message(QUESTION)).encode()
    ended = await executor.ended(await executor.add({"envelope": message, **further}))
    assert ended.decision["outcome"] == "ok"
    broken = await executor.ended(await executor.add({"envelope": message[:-1], **further}))
    assert broken.decision["outcome"] == "invalid"
    (letter,) = broken.letters
    assert letter[b"message_head"] == message[:-1]
    assert set(read) == {(1000, 99_001)}


async def test_when_the_bus_is_full_callers_are_refused_and_the_worker_answers_and_says_so(
    tmp_path: Path, tokens: TokenCounter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.bus.heartbeat.EVERY_S", 0.05)
    server = RedisServer(tmp_path)
    await server.start()
    try:
        url = f"redis://127.0.0.1:{server.port}"
        settings, source = quick_settings(url, prefix=""), OneMemory()
        source.gate.clear()
        async with connect(url) as redis, serving(settings, opened_with(source, tokens)):
            executor = Executor(redis, "")
            waits = await executor.ask(QUESTION)

            async def searched() -> bool:
                return source.waiting == 1

            await until(searched, "the query is being searched")
            await command(redis, "CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(OutOfMemoryError):
                await executor.ask(QUESTION)
            async with RecallClient.connect(url) as client:
                with pytest.raises(BusRefused, match="memory is full"):
                    await client.recall("Who feeds the gulls?")

            async def told() -> bool:
                (heartbeat,) = await read_heartbeats(redis, [settings.worker_key(settings.instance)])
                return heartbeat is not None and heartbeat.get(BUS_FULL) == "1"

            await until(told, "the worker says that the bus is full")
            (worker,) = await read_workers(redis, settings, [settings.instance])
            assert [problem for problem, _ in problems_of(worker) if "finds the bus full" in problem]
            source.gate.set()
            assert (await executor.ended(waits)).decision["outcome"] == "ok"
            assert (await info(redis, "memory"))["used_memory"] > 1
            await command(redis, "CONFIG", "SET", "maxmemory", 0)
            assert (await executor.answer(QUESTION))["bundle"]["items"]

            async def has_room() -> bool:
                return not await told()

            await until(has_room, "the worker no longer says that the bus is full")
    finally:
        await server.end()
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert sum("the bus is full" in one for one in said) == 1
    assert any("has room again" in one for one in said)


async def test_the_embedded_bus_has_a_ceiling_and_forgets_nothing(tmp_path: Path) -> None:
    async with (
        EmbeddedEngines.start(tmp_path, postgres=False, bus_memory_bytes=20 << 20) as engines,
        connect(engines.redis_url) as redis,
    ):
        policy: Any = await redis.config_get("maxmemory-policy")  # pyright: ignore[reportUnknownMemberType]
        assert policy == {"maxmemory-policy": "noeviction"}
        with pytest.raises(OutOfMemoryError):
            for _ in range(100):
                await redis.xadd("s", {"a": b"x" * 1_000_000})
        assert await redis.xlen("s") == len(await rows(redis, "s")) > 5
