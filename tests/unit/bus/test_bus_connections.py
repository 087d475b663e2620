"""Connections to the bus: what the socket takes at once is sent without a task, the rest by redis-py."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.asyncio.connection import AbstractConnection

from orion_recall.bus.connect import steady


class Transport:
    """Notes what is written; `waiting` bytes of an earlier command are not sent yet."""

    def __init__(self, *, waiting: int = 0, is_closing: bool = False) -> None:
        self.written: list[bytes] = []
        self._waiting, self._is_closing = waiting, is_closing

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.written += parts


class Slow:
    """redis-py's connection: notes what it is given to send."""

    health_check_interval = 0

    def __init__(self, transport: Transport | None) -> None:
        self._writer = None if transport is None else SimpleNamespace(transport=transport)
        self.waited_for: list[Any] = []

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        self.waited_for.append(command)


def connection(transport: Transport | None) -> Any:
    return steady(cast("type[AbstractConnection]", Slow))(transport)  # pyright: ignore[reportCallIssue]


async def test_a_small_command_is_sent_without_redis_py() -> None:
    transport = Transport()
    to_bus = connection(transport)
    await to_bus.send_packed_command(iter([b"*1\r\n", b"$4\r\nPING\r\n"]))
    assert b"".join(transport.written) == b"*1\r\n$4\r\nPING\r\n"
    assert to_bus.waited_for == []


@pytest.mark.parametrize(
    "transport", [None, Transport(waiting=1), Transport(is_closing=True)], ids=["none", "behind", "closing"]
)
async def test_a_connection_that_cannot_send_at_once_sends_as_redis_py_does(transport: Transport | None) -> None:
    to_bus = connection(transport)
    await to_bus.send_packed_command([b"PING"])
    assert to_bus.waited_for == [[b"PING"]]
    assert transport is None or transport.written == []


async def test_a_large_command_is_waited_for_with_all_its_parts() -> None:
    transport = Transport()
    to_bus = connection(transport)
    await to_bus.send_packed_command(iter([b"a" * 20_000, b"b" * 20_000]))
    assert [len(part) for part in to_bus.waited_for[0]] == [20_000, 20_000]
    assert transport.written == []
