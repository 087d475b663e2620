"""The outermost layer of the console: which hosts it answers for, and the headers of every response.

A page of another site can make a browser send requests to a loopback address under a name of its own (DNS
rebinding); such a request names that site as its host, and gets nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orion_recall.errors import SettingsError
from orion_recall.settings import Settings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def answered_hosts(settings: Settings, *, has_tokens: bool) -> frozenset[str]:
    """The names that the console answers for; SettingsError for an address that it may not listen on."""
    host, names = settings.console_host, settings.console_names
    if is_loopback(host):
        return frozenset((*LOOPBACK_NAMES, host, *names))
    if not has_tokens:
        raise SettingsError(
            f"the console listens on {host}, which others reach: ORION_CONSOLE_TOKENS must name a file of tokens "
            "(`orion-recall console --new-token NAME`); without it there is 127.0.0.1 alone"
        )
    if is_of_all_addresses(host) and not names:
        raise SettingsError(
            f"the console listens on {host}: ORION_CONSOLE_NAMES must say under which names browsers reach it"
        )
    return frozenset((*LOOPBACK_NAMES, host, *names))


def is_of_all_addresses(host: str) -> bool:
    """Whether it stands for every address of this machine, as 0.0.0.0 does."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An application that answers only requests for its own hosts, and adds the headers that a response lacks."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        app = self._app
        if host_name(headers.get("host", "")) not in self._hosts:
            app = PlainTextResponse("This console does not answer for that host (ORION_CONSOLE_NAMES).\n", 421)
        elif scope["method"] not in ("GET", "HEAD") and not _is_own_page(headers):
            app = PlainTextResponse("This was sent by a page of another site.\n", 403)
        await app(scope, receive, send_with_headers)


def host_name(header: str) -> str | None:
    """The name in a Host header, without the port and in lower case; None where it is none."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    # Of what follows the name nothing may stand in a Host header.
    return parts.hostname if parts.netloc == header and "@" not in header else None


def _is_own_page(headers: Headers) -> bool:
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False
