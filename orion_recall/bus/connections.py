"""Connections of redis-py with three fixes: cancellation, failover and Sentinel.

A task that is cancelled while it sends ends; a connection to a server that has become a replica is closed; and with
Sentinel every new connection asks for the master again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoPermissionError, ReadOnlyError, RedisError

# A silent Sentinel costs this much, once: the next connection begins with the one that answered.
_SENTINEL_TIMEOUT_S = 1.0
# So many bytes are below any high-water mark: asyncio would not let their sender wait.
_SENT_AT_ONCE = 32 << 10


@cache
def steady(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """The kind of connection, with sends that can be cancelled, and closed by a server that refuses writes.

    redis-py sends inside `asyncio.wait_for`, which loses a cancellation that comes when the send is done already
    (https://github.com/python/cpython/issues/86296, until Python 3.12): a loop that was told to end goes on. That
    costs a task and a timer as well, so what the socket takes at once is sent without it.
    """

    class Steady(kind):
        async def send_packed_command(
            self, command: bytes | str | Iterable[bytes], check_health: bool = True
        ) -> None:
            if isinstance(command, str):
                command = command.encode()
            parts = [command] if isinstance(command, bytes) else [*command]
            if self._send_at_once(parts):
                return
            task = asyncio.current_task()
            asked = task.cancelling() if task else 0
            await super().send_packed_command(parts, check_health)
            if task and task.cancelling() > asked:
                await self.disconnect(nowait=True)  # the answer would be the next command's
                raise asyncio.CancelledError

        def _send_at_once(self, parts: Sequence[bytes]) -> bool:
            """Sends the parts if the socket takes them without a wait, else nothing; whether it did."""
            if self._writer is None or self.health_check_interval or sum(map(len, parts)) > _SENT_AT_ONCE:
                return False
            transport = self._writer.transport
            if transport.is_closing() or transport.get_write_buffer_size():
                return False
            transport.writelines(parts)
            return True

        async def read_response(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return cast("Any", await super().read_response(*args, **kwargs))
            except ReadOnlyError:
                # It is a replica now. The address may lead to the new master; this connection never will.
                await self.disconnect(nowait=True)
                raise

    return Steady


class Sentinels:
    """Finds the master by asking Sentinels. `addresses` are (host, port), asked in turn."""

    def __init__(self, addresses: Iterable[tuple[str, int]], service: str, options: Mapping[str, Any]) -> None:
        self.service = service
        self._addresses = list(addresses)
        self._kind = steady(options.get("connection_class", Connection))
        self._options = {name: value for name, value in options.items() if name != "connection_class"}

    async def master(self) -> tuple[str, int]:
        """Host and port of the master; ConnectionError with every Sentinel's answer when none names one."""
        said: list[str] = []
        for address in tuple(self._addresses):
            try:
                found = await self._ask(*address)
            except (RedisError, OSError) as error:
                said.append(f"{address[0]}:{address[1]}: {error}")
                continue
            if found is None:
                said.append(f"{address[0]}:{address[1]} knows no {self.service!r}")
                continue
            self._addresses.sort(key=lambda one: one != address)  # the one that answers is asked first
            return found
        raise ConnectionError(f"no Sentinel names a master: {'; '.join(said)}")

    async def _ask(self, host: str, port: int) -> tuple[str, int] | None:
        sentinel = Redis(
            host=host,
            port=port,
            socket_timeout=_SENTINEL_TIMEOUT_S,
            socket_connect_timeout=_SENTINEL_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **({"ssl": True} if issubclass(self._kind, SSLConnection) else {}),
            **self._options,
        )
        sentinel.connection_pool.connection_class = self._kind
        try:
            found = cast(
                "list[bytes] | None",
                await sentinel.execute_command(  # pyright: ignore[reportUnknownMemberType]
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service
                ),
            )
        finally:
            await sentinel.aclose()
        return None if found is None else (found[0].decode(), int(found[1]))


def at_master(kind: type[AbstractConnection], sentinels: Sentinels) -> type[AbstractConnection]:
    """The kind of connection (TCP or TLS), which connects to the current master."""
    assert issubclass(kind, Connection)

    class AtMaster(kind):
        async def _connect(self) -> None:
            self.host, self.port = await sentinels.master()
            await super()._connect()

        async def on_connect_check_health(self, check_health: bool = True) -> None:
            await super().on_connect_check_health(check_health)
            # A Sentinel that has not heard of the failover yet still names the old master.
            await self.send_command("ROLE", check_health=False)
            try:
                role = cast("list[Any]", await self.read_response())
            except NoPermissionError:
                return  # an access list without it: a replica shows itself at the first write
            if role[0] != b"master":
                raise ConnectionError(f"{self.host}:{self.port} is no longer the master of {sentinels.service!r}")

    return AtMaster
