"""Connections to the bus: its address, its errors, and redis-py with three fixes.

A blocking read must not have a socket time-out near its block, nor a client that silently sends it again. A task
that is cancelled while it sends must end. A connection to a server that has become a replica is closed, and with
Sentinel every new one asks for the master again. FLUSHALL and a deleted group answer with different words for one
thing; a lost connection looks like four exceptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from redis import exceptions as errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from orion_recall.errors import BusRefused, BusUnavailable, SettingsError

SENTINEL_PORT = 26379

_CREDENTIALS = frozenset(("sentinel_username", "sentinel_password"))
_COMMON = frozenset(
    ("db", "username", "password", "client_name", "max_connections", "timeout", "socket_timeout",
     "socket_connect_timeout")
)  # fmt: skip
_TLS = frozenset(
    ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs",
     "ssl_check_hostname", "ssl_ciphers")
)  # fmt: skip
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_POSITIVE = ("max_connections", "timeout", "socket_timeout", "socket_connect_timeout")
_FORMS = (
    "write redis://user:password@host:6379/0, rediss://…, unix:///path/to/socket or "
    "redis+sentinel://host:26379,host2:26379/mymaster/0, with what is special in a password percent-encoded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusAddress:
    """A parsed address. `options` are redis-py's, for connections to the server.

    `sentinels` (host, port) is empty for the address of one server; `service` is the master's name at the
    Sentinels, and `sentinel_options` are redis-py's for connections to them.
    """

    options: Mapping[str, Any]
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_url(url: str) -> BusAddress:
    """The address; SettingsError without its secrets when it cannot be one."""
    scheme, _, rest = url.partition("://")
    try:
        if scheme in ("redis+sentinel", "rediss+sentinel"):
            return _with_sentinels(scheme.removesuffix("+sentinel"), rest)
        return BusAddress(options=_options(url))
    except ValueError:
        # Not with the text of the error: it may quote a part of the password.
        raise SettingsError(f"ORION_REDIS_URL cannot be read: {_FORMS}") from None


def without_secrets(url: str) -> str:
    """An address that may be logged: user, password and parameters are left out."""
    scheme, separator, rest = url.partition("://")
    before, _, parameters = rest.partition("?")
    if "@" in parameters:
        # Either a parameter holds an @, or the password a question mark: part of it may stand before that.
        return f"{scheme}{separator}…"
    return f"{scheme}{separator}{before.rpartition('@')[2]}"


def _with_sentinels(scheme: str, rest: str) -> BusAddress:
    place, _, parameters = rest.partition("?")
    authority, _, path = place.partition("/")
    user, _, hosts = authority.rpartition("@")
    service, _, database = path.partition("/")
    sentinels = tuple(_host_and_port(host) for host in hosts.split(",") if host)
    if not sentinels or not service:
        raise SettingsError(f"ORION_REDIS_URL names no Sentinel, or not the master it asks them for: {_FORMS}")
    # redis-py reads the rest as the address of one server; its host is not used.
    options = _options(f"{scheme}://{user}@sentinel/{database}?{parameters}", also=_CREDENTIALS)
    credentials = {name.removeprefix("sentinel_"): options.pop(name) for name in _CREDENTIALS & options.keys()}
    shared = {
        name: value for name, value in options.items() if name.startswith("ssl_") or name == "connection_class"
    }
    return BusAddress(
        options={name: value for name, value in options.items() if name != "host"},
        sentinels=sentinels,
        service=unquote(service),
        sentinel_options=shared | credentials,
    )


def _host_and_port(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path or parts.username:
        raise ValueError(text)
    return parts.hostname, parts.port or SENTINEL_PORT


def _options(url: str, also: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The options that redis-py reads from the address; checks first what it would check only on connecting."""
    parts = urlsplit(url)
    known = _COMMON | also | (_TLS if parts.scheme == "rediss" else frozenset[str]())
    unknown = sorted(parse_qs(parts.query, keep_blank_values=True).keys() - known)
    if unknown:
        raise SettingsError(
            f"ORION_REDIS_URL: {unknown[0][:40]!r} is no parameter of {parts.scheme}://; "
            f"there are {', '.join(sorted(known))}"
        )
    if parts.scheme in ("redis", "rediss") and not (parts.path.strip("/").isdecimal() or parts.path in ("", "/")):
        raise ValueError("the database is a number")
    options = cast("dict[str, Any]", parse_url(url))
    for name in _POSITIVE:
        if options.get(name, 1) <= 0:
            raise SettingsError(f"ORION_REDIS_URL: {name} must be more than 0")
    for name in _FILES:
        if name in options and not Path(options[name]).is_file():
            raise SettingsError(f"ORION_REDIS_URL: {name} is not a file that can be read: {options[name]}")
    return options


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
            except errors.ReadOnlyError:
                # It is a replica now. The address may lead to the new master; this connection never will.
                await self.disconnect(nowait=True)
                raise

    return Steady


def at_master(kind: type[AbstractConnection], address: BusAddress) -> type[AbstractConnection]:
    """The kind of connection (TCP or TLS), which connects to the current master: it asks the Sentinels in turn."""
    assert issubclass(kind, Connection)
    addresses, service = list(address.sentinels), address.service
    timeouts = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), _SENTINEL_TIMEOUT_S)
    options: dict[str, Any] = {**address.sentinel_options, **timeouts}
    sentinel_kind = steady(options.pop("connection_class", Connection))

    async def master() -> tuple[str, int]:
        """Host and port of the master; ConnectionError with every Sentinel's answer when none names one."""
        said: list[str] = []
        for host, port in tuple(addresses):
            pool = ConnectionPool(
                sentinel_kind, host=host, port=port, retry=Retry(NoBackoff(), 0), protocol=2, **options
            )
            try:
                async with Redis.from_pool(pool) as sentinel:
                    asked: Any = sentinel.execute_command(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                        "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service
                    )
                    found = cast("list[bytes] | None", await asked)
            except (errors.RedisError, OSError) as error:
                said.append(f"{host}:{port}: {error}")
                continue
            if found is not None:
                addresses.sort(key=lambda one: one != (host, port))  # the one that answers is asked first
                return found[0].decode(), int(found[1])
            said.append(f"{host}:{port} knows no {service!r}")
        raise errors.ConnectionError(f"no Sentinel names a master: {'; '.join(said)}")

    class AtMaster(kind):
        async def _connect(self) -> None:
            self.host, self.port = await master()
            await super()._connect()

        async def on_connect_check_health(self, check_health: bool = True) -> None:
            await super().on_connect_check_health(check_health)
            # A Sentinel that has not heard of the failover yet still names the old master.
            await self.send_command("ROLE", check_health=False)
            try:
                role = cast("list[Any]", await self.read_response())
            except errors.NoPermissionError:
                return  # an access list without it: a replica shows itself at the first write
            if role[0] != b"master":
                raise errors.ConnectionError(f"{self.host}:{self.port} is no longer the master of {service!r}")

    return AtMaster


_ADVICE: Mapping[type[errors.RedisError], str] = {
    errors.OutOfMemoryError: "the server's memory is full: raise its maxmemory, or find what fills it; an embedded "
    "bus says so when its disk is short, too",
    errors.NoPermissionError: "give the user of this address the rights of `client` in deploy/redis/users.acl",
    errors.AuthenticationError: "check user and password of the address",
}


def caller_error(error: Exception, what: str) -> BusUnavailable:
    """The BusRefused or BusUnavailable of an error of the driver. `what` names the request."""
    if not is_refusal(error):
        return BusUnavailable(f"the bus is away: {error}")
    advice = next((f" ({advice})" for kind, advice in _ADVICE.items() if isinstance(error, kind)), "")
    if str(error).startswith("MISCONF"):
        advice = " (it cannot write to its disk, which may be full: make room there)"
    return BusRefused(f"the bus refuses {what}: {error}{advice}")


def is_refusal(error: Exception) -> bool:
    """Whether the server refuses, and would refuse again. A replica's refusal does not count: masters change."""
    if isinstance(error, errors.ReadOnlyError):
        return False
    # The driver raises a ConnectionError whose cause is the refusal of a new connection.
    kinds = errors.ResponseError | errors.AuthenticationError | errors.AuthorizationError
    return isinstance(error, kinds) or isinstance(error.__cause__, kinds)


# What a lost, starting or failing-over server raises: wait, then try again.
BUS_AWAY = (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError, errors.ReadOnlyError, OSError)

_CONNECTIONS = 16
_TIMEOUT_S = 5.0
# No read blocks for longer; the socket time-out, for a peer that vanished, comes on top.
_LONGEST_BLOCK_S = 2.0
_GROUP_GONE = ("NOGROUP", "no longer exists", "requires the key to exist")


def connect(url: str, *, blocking: bool = False) -> Redis:
    """A client for the address (`bus/connect.py`); nothing is sent yet. SettingsError: it cannot be an address.

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
        kind = at_master(kind, address)
    pool = BlockingConnectionPool(
        connection_class=steady(kind), retry=Retry(NoBackoff(), 0), health_check_interval=0, protocol=2, **options
    )
    return Redis.from_pool(pool)


def group_is_gone(error: Exception) -> bool:
    """Whether the error means that the stream or its group has vanished (FLUSHALL, DEL, XGROUP DESTROY)."""
    return isinstance(error, errors.ResponseError) and any(sign in str(error) for sign in _GROUP_GONE)
