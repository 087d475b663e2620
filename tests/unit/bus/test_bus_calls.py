"""Calls, published queries, and the clock of the bus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.calls import Calls
from orion_recall.bus.group_reader import BusClock
from orion_recall.bus.query_channels import _id_and_ttl  # pyright: ignore[reportPrivateUsage]
from orion_recall.errors import ReplyTimeout

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
    calls = Calls(cast(Any, bus), cast(Any, bus))
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


@pytest.mark.parametrize(
    ("ttl_ms", "tried_s"), [(500, 0.5), (0, 0), (None, 30), (-1, 30), ("5", 30), (10**9, 30), (1e400, 30)]
)
def test_a_message_is_tried_for_half_a_minute_or_as_long_as_its_sender_waits(
    ttl_ms: object, tried_s: float
) -> None:
    assert _id_and_ttl(json.dumps({"id": "m", "ttl_ms": ttl_ms}).encode()) == ("m", tried_s)


START = 1_700_000_000.0


class Machine:
    """A machine whose clocks are set by hand, and a server `server_ahead_s` ahead of its monotonic clock."""

    def __init__(self, *, wall: float = START) -> None:
        self.monotonic, self.wall, self.server_offset_s = 100.0, wall, START - 100.0
        self.clock = BusClock(monotonic=lambda: self.monotonic, wall=lambda: self.wall)

    @property
    def server(self) -> float:
        return self.monotonic + self.server_offset_s

    def passes(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds

    def ask(self, there_s: float = 0.001, back_s: float = 0.001) -> None:
        asked_at = self.clock.began()
        self.passes(there_s)
        told = self.server
        self.passes(back_s)
        self.clock.told(told, asked_at=asked_at)


def test_before_the_server_has_told_its_time_nothing_is_over() -> None:
    machine = Machine(wall=START + 3600)
    assert machine.clock.earliest() == 0.0
    assert machine.clock.now() == START + 3600
    assert machine.clock.ahead_s == 0.0


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 60)), min_size=1, max_size=9))
def test_the_servers_time_is_never_overestimated_and_a_slow_answer_spoils_nothing(
    asked: list[tuple[float, float, float]],
) -> None:
    machine = Machine()
    for there_s, back_s, pause_s in asked:
        machine.ask(there_s, back_s)
        machine.passes(pause_s)
        assert machine.clock.earliest() <= machine.server + 1e-6
    quickest = min(there + back for there, back, _ in asked)
    drift = 500e-6 * (sum(sum(one) for one in asked))
    assert machine.server - machine.clock.earliest() <= quickest + drift + 1e-5


def test_a_server_whose_clock_is_set_is_followed_at_once() -> None:
    machine = Machine()
    machine.ask()
    machine.server_offset_s -= 7.0
    machine.passes(1.0)
    machine.ask(0.3, 0.3)
    assert machine.clock.now() == pytest.approx(machine.server, abs=0.31)
