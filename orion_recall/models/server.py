"""Requests to a model server for JSON, with limits of time and size; no failure says a key, a text or an answer."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx

from orion_recall.errors import ModelError

T = TypeVar("T")

LONGEST_PAUSE_S = 20.0
"""A server that wants to be left alone for longer is not waited for."""
_CONNECT_S = 5.0
_OK, _NO_KEY = 200, (401, 403)
_BUSY = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))


class ServerFailure(ModelError):
    """A request that failed: the server's `status`, None where none came, and the seconds it asks to wait."""

    def __init__(self, message: str, *, status: int | None = None, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.after_s = status, after_s

    @property
    def may_pass(self) -> bool:
        """Whether a retry may succeed."""
        return self.status is None or self.status in _BUSY


class JsonServer:
    """Asks one server. Every failure is a ModelError that names the address, and neither key nor text nor answer.

    Redirects are not followed, and proxies of the environment are not used: nothing goes but to this address.
    `key_name` is the setting of the key.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        key_name: str,
        timeout_s: float,
        connections: int = 32,
        most_bytes: int = 1 << 26,
    ) -> None:
        self.url, self._timeout_s = url.rstrip("/"), timeout_s
        self._key_name, self._most_bytes = key_name, most_bytes
        self._http = httpx.AsyncClient(
            # No encoding: an answer is to be as long as it looks.
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            trust_env=False,
            # Loading the trusted authorities takes 50 ms and is only needed for https.
            verify=url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """The answer as JSON."""
        server, content = f"the server at {self.url}", bytearray()
        try:
            # Around all of it: a server that sends a byte now and then never runs into httpx's own time-outs.
            async with (
                asyncio.timeout(self._timeout_s if timeout_s is None else timeout_s),
                self._http.stream(method, self.url + path, json=body) as answer,
            ):
                if answer.status_code != _OK:
                    raise self._refused(answer, path)
                if answer.headers.get("content-encoding", "identity").lower() != "identity":
                    raise ModelError(f"{server} answered in an encoding that it was not asked for")
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > self._most_bytes:
                        raise ModelError(f"{server} answered with more than {self._most_bytes} bytes")
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ServerFailure(f"{server} gave no answer to {path} in time ({type(error).__name__})") from error
        except httpx.HTTPError as error:
            # Its own text may hold a header or a part of the body.
            raise ServerFailure(f"{server} cannot be reached for {path} ({type(error).__name__})") from error
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{server} answered {path} with what is not JSON") from error

    async def close(self) -> None:
        await self._http.aclose()

    def _refused(self, answer: httpx.Response, path: str) -> ServerFailure:
        # Not the body: servers and proxies quote the text that they were sent.
        status, after = answer.status_code, answer.headers.get("retry-after", "")
        what = f"{'is busy or broken: it ' if status in _BUSY else ''}answered {path} with {status}"
        if status in _NO_KEY:
            what = f"refuses the key ({status}): check {self._key_name}"
        # It may be a date as well.
        after_s = float(after) if after.isascii() and after.isdecimal() else 0.0
        return ServerFailure(f"the server at {self.url} {what}", status=status, after_s=after_s)


async def retried(ask: Callable[[], Awaitable[T]], pauses_s: Sequence[float], *, if_silent: bool = True) -> T:
    """The result of `ask`, called again after each pause while a failure may pass."""
    for pause_s in pauses_s:
        try:
            return await ask()
        except ServerFailure as error:
            if not error.may_pass or error.after_s > LONGEST_PAUSE_S or not (error.status or if_silent):
                raise
            await asyncio.sleep(max(pause_s, error.after_s))
    return await ask()
