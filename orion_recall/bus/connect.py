"""Connections to the bus, and what to do when the server says no.

Four traps are closed here. A blocking read must not have a socket time-out near its block, nor a client that
silently sends it again; FLUSHALL and a deleted group answer with different words for one thing; a lost
connection looks like four exceptions; and a task that is cancelled while it sends must end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import cache

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, ReadOnlyError, ResponseError, TimeoutError

# What a lost, starting or failing-over server raises: wait, then try again.
BUS_AWAY: tuple[type[Exception], ...] = (
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    OSError,
)

_SILENCE_S = 15.0
_GROUP_GONE = ("NOGROUP", "UNBLOCKED", "no longer exists", "requires the key to exist")


def connect(url: str, *, blocking: bool = False) -> Redis:
    """A client for the address; nothing is sent yet. `blocking` is for the one connection that waits in reads.

    Its socket time-out is far above any block, and is there for a peer that has vanished without a word.
    There are no retries inside the client: a command that is sent twice behind our back is worse than an error.
    """
    client = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        decode_responses=False,
        socket_timeout=_SILENCE_S if blocking else 5.0,
        socket_connect_timeout=5.0,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        protocol=2,
    )
    pool = client.connection_pool
    pool.connection_class = _cancellable(pool.connection_class)
    return client


@cache
def _cancellable(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """The kind of connection, with sends that can be cancelled.

    redis-py sends inside `asyncio.wait_for`, which loses a cancellation that comes when the send is done already
    (https://github.com/python/cpython/issues/86296, until Python 3.12): a loop that was told to end goes on.
    """

    class Cancellable(kind):
        async def send_packed_command(
            self, command: bytes | str | Iterable[bytes], check_health: bool = True
        ) -> None:
            task = asyncio.current_task()
            asked = task.cancelling() if task else 0
            await super().send_packed_command(command, check_health)
            if task and task.cancelling() > asked:
                await self.disconnect(nowait=True)  # the answer would be the next command's
                raise asyncio.CancelledError

    return Cancellable


def group_is_gone(error: Exception) -> bool:
    """Whether the error means that the stream or its group has vanished (FLUSHALL, DEL, XGROUP DESTROY)."""
    return isinstance(error, ResponseError) and any(sign in str(error) for sign in _GROUP_GONE)


def without_secrets(url: str) -> str:
    """An address that may be logged: user and password are left out."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
