"""Addresses of the bus: one server, or the master that Sentinels name.

redis://user:password@host:6379/0                        one server
rediss://host:6379/0?ssl_ca_certs=/etc/ca.pem            the same under TLS
unix:///run/redis.sock?db=0                              the same over a socket
redis+sentinel://user:password@one:26379,two/mymaster/0  the master `mymaster`, whichever server that is now
rediss+sentinel://…                                      the same, servers and Sentinels under TLS
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from redis.asyncio.connection import parse_url

from orion_recall.errors import SettingsError

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
