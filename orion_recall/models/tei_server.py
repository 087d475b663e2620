"""A client of a text-embeddings-inference (TEI) server over HTTP: its model, its answers, its errors.

https://huggingface.github.io/text-embeddings-inference - a server has one model, which embeds or reranks.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx

from orion_recall.errors import ModelError

# A batch of documents on a slow machine takes seconds; a query's own deadline is shorter and ends it earlier.
TIMEOUT_S = 60.0
_CONNECT_S = 2.0
# A server that was replaced behind a load balancer looks like the one before: it is asked again after so long.
_KNOWN_S = 30.0
_INFO_S = 5.0
_CONNECTIONS = 32
_DEFAULT_BATCH, _DEFAULT_INPUT_TOKENS = 32, 512
_OK, _TOO_LARGE, _NO_KEY, _BUSY = 200, 413, (401, 403), (429, 503)


class TooMuch(ModelError):
    """The request is too large for the server: half of it may succeed."""


class ServerBusy(ModelError):
    """The server is overloaded: a retry may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeiInfo:
    """A server's report on itself. `task` is embedding, reranker, classifier or "" where it does not say."""

    model: str
    revision: str | None
    pooling: str
    task: str
    max_batch: int
    max_input_tokens: int

    @property
    def served(self) -> tuple[str, str | None, str]:
        """All that the vectors depend on: another value is another model."""
        return self.model, self.revision, self.pooling


class TeiServer:
    """Sends requests to one server. Every failure is a ModelError with the address, and neither key nor text."""

    def __init__(self, url: str, api_key: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout_s, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            # The settings say where the server is: neither a proxy of the environment nor a netrc file does.
            trust_env=False,
            # Loading the trusted authorities takes 50 ms and is only needed for https.
            verify=url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        self._asking = asyncio.Lock()
        self._info: TeiInfo | None = None
        self._known_until = 0.0

    async def info(self) -> TeiInfo:
        """The served model, queried again after a failure and twice a minute. ModelError when it has changed.

        Meanwhile it is what it was: nobody waits for a question that hangs.
        """
        if self._info is not None and self._asking.locked():
            return self._info
        async with self._asking:
            if self._info is not None and time.monotonic() < self._known_until:
                return self._info
            timeout_s = self._timeout_s if self._info is None else min(self._timeout_s, _INFO_S)
            found = _read_info(await self._ask("GET", "/info", timeout_s=timeout_s), self.url)
            if self._info is not None and found.served != self._info.served:
                raise ModelError(
                    f"the server at {self.url} served {self._info.model} and serves {found.model} now "
                    f"(revisions {self._info.revision} and {found.revision}): restart to use it"
                )
            self._info, self._known_until = found, time.monotonic() + _KNOWN_S
            return found

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer as JSON."""
        return await self._ask("POST", path, body)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        try:
            # Around all of it: a server that sends a byte now and then never runs into httpx's own time-outs.
            async with asyncio.timeout(self._timeout_s if timeout_s is None else timeout_s):
                answer = await self._http.request(method, path, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            self._known_until = 0.0
            raise ModelError(
                f"the server at {self.url} gave no answer to {path} in time ({type(error).__name__})"
            ) from error
        except httpx.HTTPError as error:
            self._known_until = 0.0
            # Its own text may hold a header or a part of the body.
            raise ModelError(
                f"the server at {self.url} cannot be reached for {path} ({type(error).__name__})"
            ) from error
        if answer.status_code != _OK:
            raise self._refused(answer, path)
        try:
            return answer.json()
        except ValueError as error:
            raise ModelError(f"the server at {self.url} answered {path} with what is not JSON") from error

    def _refused(self, answer: httpx.Response, path: str) -> ModelError:
        status = answer.status_code
        if status == _TOO_LARGE:
            return TooMuch(f"the server at {self.url} does not take so much at once for {path} (413)")
        if status in _BUSY:
            return ServerBusy(f"the server at {self.url} is busy ({status} for {path})")
        if status in _NO_KEY:
            return ModelError(f"the server at {self.url} refuses the key ({status}): check ORION_TEI_API_KEY")
        # A proxy says so while the server behind it is replaced.
        self._known_until = 0.0
        # Not the body: servers and proxies quote the text that they were sent.
        return ModelError(f"the server at {self.url} answered {path} with {status}")


def _read_info(answer: Any, url: str) -> TeiInfo:
    if not isinstance(answer, dict) or not isinstance(answer.get("model_id"), str):  # pyright: ignore[reportUnknownMemberType]
        raise ModelError(f"{url}/info names no model: is this a text-embeddings-inference server?")
    said = cast("dict[str, Any]", answer)
    kinds = said.get("model_type")
    kind = cast("dict[str, Any]", kinds) if isinstance(kinds, dict) else {}
    task = next(iter(kind), "").lower()
    about = kind.get(task)
    # Versions before 1.0 said it at the top.
    pooling = cast("dict[str, Any]", about).get("pooling") if isinstance(about, dict) else said.get("model_pooling")
    revision = said.get("model_sha")
    return TeiInfo(
        model=said["model_id"],
        revision=revision if isinstance(revision, str) else None,
        pooling=pooling if isinstance(pooling, str) else "",
        task=task,
        max_batch=_positive(said.get("max_client_batch_size"), _DEFAULT_BATCH),
        max_input_tokens=_positive(said.get("max_input_length"), _DEFAULT_INPUT_TOKENS),
    )


def _positive(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
