"""A client of an OpenAI-compatible chat-completions server: it retries with limits and checks every answer.

https://platform.openai.com/docs/api-reference/chat - the address is what comes before `/chat/completions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from orion_recall.errors import ModelError

log = logging.getLogger("orion_recall.models")

PAUSES_S = (0.5, 1.0, 2.0)
# A server that wants to be left alone for longer is not waited for.
LONGEST_PAUSE_S = 20.0
MAX_ANSWER_BYTES = 1_048_576
_CONNECT_S = 5.0
_OK, _BAD_REQUEST, _NO_KEY = 200, 400, (401, 403)
_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_PATH = "/chat/completions"


class _Passing(ModelError):
    """A retry may succeed; `after_s` is the delay that the server asks for."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class _NotSo(ModelError):
    """The server refuses the request as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """The model's answer; `is_cut` when a limit cut it off."""

    text: str
    is_cut: bool


class ChatServer:
    """Asks one model. Every failure is a ModelError that names the address, and neither key nor text nor answer.

    Redirects are not followed, and proxies of the environment are not used: nothing goes but to this address.
    """

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
        self.url, self.model, self.timeout_s = url.rstrip("/"), model, timeout_s
        self._pauses_s = tuple(pauses_s)
        # Newer models take neither a temperature nor `max_tokens`, and older servers know no other words for it.
        self._takes_limits = True
        self._http = httpx.AsyncClient(
            # No encoding: an answer is to be as long as it looks.
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            trust_env=False,
            # Loading the trusted authorities takes 50 ms and is only needed for https.
            verify=url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    @property
    def longest_s(self) -> float:
        """The longest time that `complete` takes."""
        tries = len(self._pauses_s) + 1
        return tries * self.timeout_s + sum(max(pause_s, LONGEST_PAUSE_S) for pause_s in self._pauses_s)

    async def complete(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int) -> ChatAnswer:
        """The model's answer; retried a few times while the server is busy, slow or unreachable."""
        for pause_s in (*self._pauses_s, None):
            try:
                return await self._ask(messages, max_tokens)
            except _Passing as error:
                if pause_s is None or error.after_s > LONGEST_PAUSE_S:
                    raise
                await asyncio.sleep(max(pause_s, error.after_s))
        raise AssertionError("unreachable")  # pragma: no cover

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, messages: Sequence[Mapping[str, str]], max_tokens: int) -> ChatAnswer:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": False}
        limits = {"max_tokens": max_tokens, "temperature": 0}
        if not self._takes_limits:
            return _read(await self._post(body), self.url)
        try:
            return _read(await self._post(body | limits), self.url)
        except _NotSo:
            answer = _read(await self._post(body), self.url)
            log.info("the model %s takes no limits: they are left out", self.model)
            self._takes_limits = False
            return answer

    async def _post(self, body: Mapping[str, Any]) -> Any:
        content = bytearray()
        try:
            # Around all of it: a server that sends a byte now and then never runs into httpx's own time-outs.
            async with (
                asyncio.timeout(self.timeout_s),
                self._http.stream("POST", self.url + _PATH, json=body) as answer,
            ):
                if answer.status_code != _OK:
                    raise self._refused(answer)
                if answer.headers.get("content-encoding", "identity").lower() != "identity":
                    raise ModelError(f"the server at {self.url} answered in an encoding that it was not asked for")
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > MAX_ANSWER_BYTES:
                        raise ModelError(
                            f"the server at {self.url} answered with more than {MAX_ANSWER_BYTES} bytes"
                        )
        except (TimeoutError, httpx.TimeoutException) as error:
            raise _Passing(f"the server at {self.url} gave no answer in {self.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            # Its own text may hold a header or a part of the body.
            raise _Passing(f"the server at {self.url} cannot be reached ({type(error).__name__})") from error
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"the server at {self.url} answered with what is not JSON") from error

    def _refused(self, answer: httpx.Response) -> ModelError:
        status = answer.status_code
        if status in _PASSING:
            return _Passing(f"the server at {self.url} is busy or broken ({status})", _after_s(answer))
        if status in _NO_KEY:
            return ModelError(f"the server at {self.url} refuses the key ({status}): check ORION_LLM_API_KEY")
        if status == _BAD_REQUEST:
            return _NotSo(f"the server at {self.url} does not take the request (400): check ORION_LLM_MODEL")
        # Not the body: servers and proxies quote what they were sent.
        return ModelError(
            f"the server at {self.url} answered with {status}: check ORION_LLM_URL and ORION_LLM_MODEL"
        )


def _after_s(answer: httpx.Response) -> float:
    """The seconds that `Retry-After` asks for, as a number or as a date."""
    given = answer.headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        seconds = float(given)
        return seconds if 0 <= seconds < float("inf") else 0.0
    with contextlib.suppress(ValueError, OverflowError):
        at = parsedate_to_datetime(given)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return 0.0


def _read(answer: Any, url: str) -> ChatAnswer:
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
