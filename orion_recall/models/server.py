"""Requests to a model server for JSON, with limits of time and size; no failure says a key, a text or an answer.

And a client of an OpenAI-compatible chat-completions server, which retries with limits and checks every answer:
https://platform.openai.com/docs/api-reference/chat - the address is what comes before `/chat/completions`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import httpx

from orion_recall.errors import ModelError

log = logging.getLogger("orion_recall.models")
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


PAUSES_S = (0.5, 1.0, 2.0)
MAX_ANSWER_BYTES = 1_048_576


class ChatAnswer(NamedTuple):
    """The model's answer; `is_cut` when a limit cut it off."""

    text: str
    is_cut: bool


class ChatServer:
    """Asks one model. Every failure is a ModelError that names the address, and neither key nor text nor answer."""

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        pauses_s: Sequence[float] = PAUSES_S,
        connections: int = 32,
    ) -> None:
        self.model = model
        self.longest_s = (len(pauses_s) + 1) * timeout_s + sum(max(pause, LONGEST_PAUSE_S) for pause in pauses_s)
        """The longest time that `complete` takes."""
        self._pauses_s = tuple(pauses_s)
        # Newer models take neither a temperature nor `max_tokens`, and older servers know no other words for it.
        self._takes_limits = True
        limits = {"connections": connections, "most_bytes": MAX_ANSWER_BYTES}
        self._server = JsonServer(url, api_key, key_name="ORION_LLM_API_KEY", timeout_s=timeout_s, **limits)
        self.close = self._server.close

    async def complete(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int) -> ChatAnswer:
        """The model's answer; retried a few times while the server is busy, slow or unreachable."""
        return await retried(partial(self._ask, messages, max_tokens), self._pauses_s)

    async def _ask(self, messages: Sequence[Mapping[str, str]], max_tokens: int) -> ChatAnswer:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": False}
        limits = {"max_tokens": max_tokens, "temperature": 0}
        if self._takes_limits:
            try:
                return await self._post(body | limits)
            except ServerFailure as error:
                if error.status != 400:
                    raise
        answer = await self._post(body)
        if self._takes_limits:
            log.info("the model %s takes no limits: they are left out", self.model)
            self._takes_limits = False
        return answer

    async def _post(self, body: Mapping[str, Any]) -> ChatAnswer:
        url = self._server.url
        try:
            answer = await self._server.ask("POST", "/chat/completions", body)
        except ServerFailure as error:
            if error.status in (400, 404):
                raise ServerFailure(
                    f"{error}: check ORION_LLM_URL and ORION_LLM_MODEL", status=error.status
                ) from error
            raise
        try:
            choice: Any = answer["choices"][0]
            message: Any = choice["message"]
            text, refusal = message.get("content"), message.get("refusal")
            reason: object = choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ModelError(f"the server at {url} answered with JSON that is no chat completion") from error
        if isinstance(refusal, str) and refusal:
            raise ModelError(f"the model at {url} refused to answer")
        if not isinstance(text, str):
            raise ModelError(f"the model at {url} said nothing")
        return ChatAnswer(text=text, is_cut=reason == "length")
