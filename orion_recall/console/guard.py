"""The outermost layer of the console: which hosts it answers for, and the headers of every response.

A page of another site can make a browser send requests to a loopback address under a name of its own (DNS
rebinding); such a request names that site as its host, and gets nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Whether a form comes from a page of ours, as far as the browser says where it comes from."""
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False
