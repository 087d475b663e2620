"""The client that waits: from threads, beside a running loop, under Ctrl-C, after a fork."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import pytest
from executor import command, until
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from orion_recall import BusUnavailable, InvalidMessage, SettingsError, SyncRecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.serving.service import Service

pytestmark = pytest.mark.slow

QUERIES = "recall.query.v1"
THREAD = "orion-recall-client"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


async def test_it_asks_and_remembers_as_the_other_one_does(
    service: Service, service_engines: EmbeddedEngines, tenant: str
) -> None:
    def work() -> None:
        with SyncRecallClient.connect(service_engines.redis_url, prefix=service.settings.prefix) as client:
            reply = client.recall("Where does Ana work?", session_id="s-ana", options={"k": 1})
            assert [item.id for item in reply.bundle.items] == ["m-work"]
            assert client.feedback(decision_id=reply.bundle.stats.decision_id, used=["m-work"]).recorded
            assert client.store([{"id": "m", "text": "A kettle.", "tenant": tenant}]).stored == 1
            assert client.update([{"id": "m", "text": "A pot."}], tenant=tenant).updated == 1
            assert client.delete(["m"], tenant=tenant).deleted == 1
            with pytest.raises(InvalidMessage, match="did you mean max_tokens"):
                client.recall("What?", options={"max_token": 1})
            with pytest.raises(TypeError, match="unexpected keyword"):
                client.recall("What?", tenant="t")  # pyright: ignore[reportCallIssue]

    await asyncio.to_thread(work)
    assert threads() == []


@contextmanager
def answering(url: str, prefix: str, fragment: str) -> Generator[None]:
    """Answers one query, that with the fragment, from a thread of its own."""

    def answer() -> None:
        stats: Any = {"backend_counts": {}, "latency_ms": 1, "profile": "by-hand.v1"}
        payload: Any = {"bundle": {"rendered": "Here.", "items": [], "stats": stats}}
        # It waits for a process that a busy machine takes long to start: redis-py would give up after five seconds.
        with cast(Any, SyncRedis).from_url(url, socket_timeout=None) as redis:
            last: Any = "0"
            while found := redis.xread({f"{prefix}{QUERIES}": last}, block=60_000, count=1):
                ((_, ((last, fields),)),) = found
                asked = json.loads(fields[b"envelope"])
                if asked["payload"]["fragment"] == fragment:
                    reply = {"correlation_id": asked["correlation_id"], "payload": payload}
                    redis.xadd(asked["reply_to"], {"envelope": json.dumps(reply)})
                    redis.unlink(f"{prefix}{QUERIES}")
                    return

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        thread.join()


async def test_it_works_in_the_thread_of_a_running_loop(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
) -> None:
    client = SyncRecallClient.connect(bus_alone.redis_url, prefix=prefix)
    with answering(bus_alone.redis_url, prefix, "Is anybody there?"):
        assert client.recall("Is anybody there?", timeout_s=60).bundle.rendered == "Here."
    client.close()
    client.close()
    assert threads() == []
    with pytest.raises(BusUnavailable, match="the client is closed"):
        client.recall("And now?")
    assert await command(bus, "KEYS", f"{prefix}*") == []


@pytest.mark.parametrize(
    ("url", "error"), [("unix:///nowhere.sock", BusUnavailable), ("http://nowhere", SettingsError)]
)
def test_a_client_that_cannot_be_connected_leaves_no_thread(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        SyncRecallClient.connect(url)
    assert threads() == []


async def test_closing_ends_the_calls_that_wait(bus: Redis, bus_alone: EmbeddedEngines, prefix: str) -> None:
    client = SyncRecallClient.connect(bus_alone.redis_url, prefix=prefix)
    asking = asyncio.create_task(asyncio.to_thread(client.recall, "Is anybody there?", timeout_s=60))
    await until(lambda: _has_entries(bus, prefix), "the query is sent")
    await asyncio.to_thread(client.close)
    with pytest.raises(BusUnavailable, match="closed before the reply came"):
        await asking
    assert threads() == []
    await bus.unlink(f"{prefix}{QUERIES}")


# What a shell runs in the background ignores Ctrl-C, and so would the children of tests that it runs there.
_INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
# `python -c CHILD url prefix`: what it prints says how far it is.
INTERRUPTED = """
import sys, threading
from orion_recall import SyncRecallClient
with SyncRecallClient.connect(sys.argv[1], prefix=sys.argv[2]) as client:
    try:
        client.recall("Is anybody there?", timeout_s=60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(client.recall("And now?", timeout_s=60).bundle.rendered)
print(threading.active_count())
"""
FORKED = """
import os, sys
from orion_recall import ClientError, SyncRecallClient
client = SyncRecallClient.connect(sys.argv[1], prefix=sys.argv[2])
child = os.fork()
if child == 0:
    try:
        client.recall("Is anybody there?", timeout_s=60)
    except ClientError as error:
        print(error, flush=True)
    client.close()
    with SyncRecallClient.connect(sys.argv[1], prefix=sys.argv[2]) as own:
        print(own.recall("Is anybody there?", timeout_s=60).bundle.rendered, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.close()
"""


@asynccontextmanager
async def child_of(code: str, *arguments: str) -> AsyncGenerator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"{_INTERRUPTIBLE}\n{code}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


async def test_ctrl_c_ends_the_call_that_waits_and_no_other(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
) -> None:
    async with child_of(INTERRUPTED, bus_alone.redis_url, prefix) as child:
        assert child.stdout is not None
        await until(lambda: _has_entries(bus, prefix), "the query is sent")
        child.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(child.stdout.readline) == "interrupted\n"
        with answering(bus_alone.redis_url, prefix, "And now?"):
            assert await asyncio.to_thread(child.stdout.read) == "Here.\n1\n"
        assert child.wait() == 0
    assert await command(bus, "KEYS", f"{prefix}*") == []


async def test_a_forked_process_is_told_to_connect_a_client_of_its_own(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
) -> None:
    async with child_of(FORKED, bus_alone.redis_url, prefix) as child:
        assert child.stdout is not None
        with answering(bus_alone.redis_url, prefix, "Is anybody there?"):
            said = await asyncio.to_thread(child.stdout.read)
        assert said == "this client was connected by another process: connect one here\nHere.\n"
        assert child.wait() == 0
    assert await command(bus, "KEYS", f"{prefix}*") == []


async def _has_entries(bus: Redis, prefix: str) -> bool:
    return bool(await bus.xlen(f"{prefix}{QUERIES}"))
