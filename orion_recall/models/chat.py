"""A client of an OpenAI-compatible chat-completions server: it retries with limits and checks every answer.

https://platform.openai.com/docs/api-reference/chat - the address is what comes before `/chat/completions`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from orion_recall.errors import ModelError
from orion_recall.models.server import LONGEST_PAUSE_S, JsonServer, ServerFailure, retried

log = logging.getLogger("orion_recall.models")

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
