"""Calls in flight and their replies, on a bus that the test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, cast

import pytest
from redis.exceptions import NoPermissionError

from orion_recall.bus.calls import Calls
from orion_recall.errors import BusRefused, ReplyTimeout

Entries = list[tuple[bytes, dict[bytes, bytes]]]


class Bus:
    """Keeps what is sent, and gives the replies that the test puts in; an exception is raised instead."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.replies: asyncio.Queue[Mapping[str, Any] | Exception] = asyncio.Queue()
        self._ids = count(1)

    async def xadd(self, _stream: str, fields: Mapping[str, bytes]) -> None:
        await self.sent.put(json.loads(fields["envelope"]))

    async def xread(self, streams: Mapping[str, str], **_: object) -> list[tuple[bytes, Entries]]:
        reply = await self.replies.get()
        if isinstance(reply, Exception):
            raise reply
        (stream,) = streams
        return [(stream.encode(), [(b"%d-0" % next(self._ids), {b"envelope": json.dumps(reply).encode()})])]

    async def xdel(self, *_: object) -> None: ...


@asynccontextmanager
async def calling(bus: Bus) -> AsyncGenerator[Calls]:
    redis = cast(Any, bus)
    calls = Calls(redis, redis, prefix="", replies="replies", service="test", max_message_bytes=8192)
    reading = asyncio.create_task(calls._read())  # pyright: ignore[reportPrivateUsage]
    try:
        yield calls
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


def reply(asked: Mapping[str, Any], said: str, *, linked: bool = True) -> Mapping[str, Any]:
    """A worker's reply, whose causality chain ends with the message that it answers."""
    link = {name: asked[name] for name in ("correlation_id", "kind", "source", "created_at")}
    return {
        "correlation_id": asked["correlation_id"],
        "payload": {"said": said},
        "causality_chain": [*asked["causality_chain"], *([link] if linked else [])],
    }


async def test_a_late_reply_to_an_earlier_message_is_not_taken_for_that_to_the_next_one():
    bus = Bus()
    async with calling(bus) as calls:
        with pytest.raises(ReplyTimeout):
            await calls.call("k", {}, timeout_s=0.001, correlation_id="c")
        again = asyncio.create_task(calls.call("k", {}, timeout_s=60, correlation_id="c"))
        first, second = await bus.sent.get(), await bus.sent.get()
        assert first["created_at"] != second["created_at"]
        await bus.replies.put(reply(first, "late"))
        await bus.replies.put(reply(second, "mine"))
        assert await again == {"said": "mine"}


async def test_replies_that_may_not_be_read_end_the_calls_that_wait_and_those_that_follow():
    bus = Bus()
    async with calling(bus) as calls:
        waiting = asyncio.create_task(calls.call("k", {}, timeout_s=60))
        await bus.sent.get()
        await bus.replies.put(NoPermissionError("this user has no permissions to run the 'xread' command"))
        with pytest.raises(BusRefused, match=r"the bus refuses to give replies: this user has no permissions"):
            await waiting
        with pytest.raises(BusRefused, match=r"the bus refuses to give replies"):
            await calls.call("k", {}, timeout_s=60)
        assert bus.sent.empty(), "nothing is sent whose answer could not be read"
        await bus.replies.put({"correlation_id": "another", "payload": {}})

        async def readable() -> bool:
            asking = asyncio.create_task(calls.call("k", {}, timeout_s=60, correlation_id="c"))
            getting = asyncio.create_task(bus.sent.get())
            await asyncio.wait((asking, getting), return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                assert isinstance(asking.exception(), BusRefused)
                return False
            await bus.replies.put(reply(getting.result(), "again"))
            return await asking == {"said": "again"}

        async with asyncio.timeout(60):
            while not await readable():
                await asyncio.sleep(0)
