"""Connections to the bus, and the errors of a lost server or a deleted group.

Three traps are closed here, and more in `connections`. A blocking read must not have a socket time-out near its
block, nor a client that silently sends it again; FLUSHALL and a deleted group answer with different words for one
thing; and a lost connection looks like four exceptions.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, ReadOnlyError, ResponseError, TimeoutError

from orion_recall.bus.bounded.entry_fields import bound_fields
from orion_recall.bus.connections import Sentinels, at_master, steady
from orion_recall.bus.urls import read_url

# What a lost, starting or failing-over server raises: wait, then try again.
BUS_AWAY: tuple[type[Exception], ...] = (
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    OSError,
)

_CONNECTIONS = 16
_TIMEOUT_S = 5.0
# No read blocks for longer; the socket time-out, for a peer that vanished, comes on top.
_LONGEST_BLOCK_S = 2.0
_GROUP_GONE = ("NOGROUP", "no longer exists", "requires the key to exist")


def connect(url: str, *, blocking: bool = False) -> Redis:
    """A client for the address (`bus/urls.py`); nothing is sent yet. SettingsError: it cannot be an address.

    `blocking` is for the one connection that waits in reads: its socket time-out is above any block, for a peer
    that vanished silently. The client does not retry: a command sent twice without our knowledge is worse than an
    error. The pool is bounded; a caller waits while it is empty.
    """
    address = read_url(url)
    given = {"max_connections": _CONNECTIONS, "timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S}
    options: dict[str, Any] = given | {"socket_connect_timeout": _TIMEOUT_S} | dict(address.options)
    if blocking:
        options["socket_timeout"] += _LONGEST_BLOCK_S
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    if address.sentinels:
        kind = at_master(kind, Sentinels(address.sentinels, address.service, address.sentinel_options))
    pool = BlockingConnectionPool(
        connection_class=steady(kind), retry=Retry(NoBackoff(), 0), health_check_interval=0, protocol=2, **options
    )
    return bound_fields(Redis.from_pool(pool))


def group_is_gone(error: Exception) -> bool:
    """Whether the error means that the stream or its group has vanished (FLUSHALL, DEL, XGROUP DESTROY)."""
    return isinstance(error, ResponseError) and any(sign in str(error) for sign in _GROUP_GONE)
