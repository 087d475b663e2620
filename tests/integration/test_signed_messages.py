"""A worker that takes signed messages only: every kind of message, by our client and by plain commands."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from executor import Executor, command, until
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.connect import connect
from orion_recall.bus.dead_letters import DeadLetters
from orion_recall.bus.signing.keys import Caller, Key, Right, sign, written_caller, written_key
from orion_recall.client import RecallClient, SyncRecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.settings import Settings
from tests.stand_ins.signed import sign_within, unsigned_line

pytestmark = pytest.mark.slow

ALL: tuple[Right, ...] = ("recall", "write", "delete", "feedback")


class Keys:
    """A ring, and a file for every caller."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ring, self.keys = folder, folder / "ring.toml", dict[str, Key]()
        self.ring.touch(mode=0o600)

    def add(self, name: str, *tenants: str, may: tuple[Right, ...] = ALL) -> Path:
        key = self.keys[name] = Key(id=name, secret=os.urandom(32))
        with self.ring.open("a") as file:
            file.write(written_caller(Caller(**dict(key), tenants=tenants, may=frozenset(may))))
        path = self.folder / f"{name}.key"
        path.touch(mode=0o600)
        path.write_text(written_key(key))
        return path


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@pytest.fixture
async def settings(
    service_engines: EmbeddedEngines, database: str, keys: Keys, tokens: TokenCounter
) -> AsyncGenerator[Settings]:
    """Of a worker that runs."""
    keys.add("ana", "ana")
    settings = quick_settings(
        service_engines.redis_url,
        postgres_dsn=database,
        keys_file=keys.ring,
        tenants=("*",),
        reply_streams=("*",),
        acknowledge_ms=0,
    )
    async with serving(settings, opened_with(OneMemory(), tokens)):
        yield settings


@pytest.fixture
async def executor(settings: Settings) -> AsyncGenerator[Executor]:
    async with connect(settings.bus_url or "") as redis:
        asking = Executor(redis, settings.prefix)
        yield asking
        await asking.close()


def connected(settings: Settings, key: Path) -> Any:
    return RecallClient.connect(settings.bus_url or "", prefix=settings.prefix, key=key)


async def test_our_client_signs_every_kind_of_message(settings: Settings, keys: Keys) -> None:
    async with connected(settings, keys.folder / "ana.key") as client:
        reply = await client.recall("Who feeds the gulls?")
        assert reply.error is None
        assert [item.id for item in reply.bundle.items] == ["m-gulls"]
        stored = await client.store([{"id": "m-1", "text": "It rained."}])
        assert (stored.stored, stored.error) == (1, None)
        changed = await client.update([{"id": "m-1", "text": "It poured."}], tenant="ana")
        assert (changed.updated, changed.error) == (1, None), "it was stored for the tenant of the key"
        given = await client.feedback(decision_id=reply.bundle.stats.decision_id, used=["m-gulls"])
        gone = await client.delete(["m-1"])
        assert (gone.deleted, gone.error) == (1, None)
        assert given.error is None or "decision" in given.error.message


async def test_an_unsigned_message_is_answered_decided_and_its_words_are_not_kept(
    settings: Settings, executor: Executor
) -> None:
    ended = await executor.ended(await executor.ask({"fragment": "hidden words", "options": {"tenant": "ben"}}))
    error = ended.reply["payload"]["error"]
    assert (error["type"], ended.decision["outcome"], ended.letters) == ("refused", "refused", [])
    assert "signed messages only" in error["message"]
    assert "hidden" not in json.dumps(ended.decision)
    assert ended.decision["tenant"] is None, "a stranger writes nothing into a tenant's log"


async def test_a_message_that_is_heard_is_not_taken_twice(
    settings: Settings, executor: Executor, keys: Keys
) -> None:
    message = json.dumps(executor.message({"fragment": "Gulls?", "options": {}})).encode()
    signature = sign(keys.keys["ana"], message, stream=executor.queries, time=time.time())
    fields = {"envelope": message, "signature": signature}
    first, second = [await executor.ended(await executor.add(fields)) for _ in range(2)]
    assert first.decision["outcome"] == "ok"
    assert second.decision["outcome"] == "refused"
    assert "has come before" in second.decision["error"]


async def test_nobody_asks_or_stores_for_another_tenant(settings: Settings, keys: Keys) -> None:
    async with connected(settings, keys.folder / "ana.key") as client:
        reply = await client.recall("Gulls?", options={"tenant": "ben"})
        assert reply.error is not None
        assert (reply.error.type, list(reply.bundle.items)) == ("refused", [])
        stored = await client.store([{"id": "m-1", "text": "a", "tenant": "ben"}, {"id": "m-2", "text": "b"}])
        assert [one.status for one in stored.results] == ["rejected", "stored"]
        for receipt in (
            await client.update([{"id": "m-2", "text": "c"}], tenant="ben"),
            await client.delete(["m-2"], tenant="ben"),
            await client.feedback(correlation_id="c-1", used=["m-2"], tenant="ben"),
        ):
            assert receipt.error is not None
            assert "is not for tenant 'ben'" in receipt.error.message


async def test_a_new_key_counts_at_once_and_one_that_is_taken_out_no_more(settings: Settings, keys: Keys) -> None:
    reader = keys.add("reader", "ana", may=("recall",))
    async with connected(settings, reader) as client:
        assert (await client.recall("Gulls?")).error is None
        refused = await client.store([{"id": "m-1", "text": "It rained."}])
        assert refused.error is not None
        assert "may recall, and not write" in refused.error.message
        keys.ring.write_text("")
        gone = await client.recall("Gulls?")
        assert gone.error is not None
        assert gone.error.type == "refused"


async def test_a_published_query_holds_its_signature_where_strict_readers_take_it(
    settings: Settings, executor: Executor, keys: Keys
) -> None:
    key = keys.keys["ana"]
    line = unsigned_line(key, time=time.time())
    whole = executor.message({"fragment": "Gulls?", "options": {}}, trace={"orion_signature": line, "work": 7})
    for message in (json.dumps(whole).encode(), json.dumps(whole | {"id": "other"}).encode()):
        is_signed = whole["id"].encode() in message
        sent = sign_within(key, message, line, stream=executor.queries) if is_signed else message
        await command(executor.redis, "PUBLISH", executor.queries, sent)

    async def both() -> bool:
        return len(await executor.replies(executor.reply_to)) == 2

    await until(both, "two replies")
    found = [reply["payload"].get("error", {}).get("type") for reply in await executor.replies(executor.reply_to)]
    assert sorted(map(str, found)) == ["None", "refused"]


async def test_a_store_that_was_signed_too_long_ago_is_kept_and_put_back_under_the_operators_key(
    settings: Settings, executor: Executor, keys: Keys
) -> None:
    stream = f"{settings.prefix}memory.store.v1"
    message = json.dumps(executor.message({"memories": [{"id": "m-9", "text": "Hail."}]}, kind="memory.store.v1"))
    old = sign(keys.keys["ana"], message.encode(), stream=stream, time=time.time() - 4000)
    await executor.add({"envelope": message, "signature": old}, stream=stream)
    dead = DeadLetters(executor.redis, stream)

    async def set_aside() -> bool:
        return bool(await dead.latest())

    await until(set_aside, "a dead letter")
    (letter,) = await dead.latest()
    assert re.search(r"signed 4\d{3} s before it was read", letter.reason)
    keys.add("operator", "*")
    await dead.requeue(letter, key=keys.keys["operator"])

    async def answered() -> bool:
        return len(await executor.replies(executor.reply_to)) == 2

    await until(answered, "the receipt")
    assert (await executor.replies(executor.reply_to))[-1]["payload"]["stored"] == 1


async def test_the_key_may_come_from_the_environment_and_to_the_synchronous_client(
    settings: Settings, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORION_KEY", str(keys.folder / "ana.key"))
    async with RecallClient.connect(settings.bus_url or "", prefix=settings.prefix) as client:
        assert (await client.recall("Gulls?")).error is None
    opened = SyncRecallClient.connect(settings.bus_url or "", prefix=settings.prefix, key=keys.folder / "ana.key")
    opened.close()
