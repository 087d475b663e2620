"""Calls to a Qdrant server, with time-outs and translated errors."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx

from orion_recall.errors import AnotherRecordsCopy, QueryNotTaken, SourceError, TransientSourceError
from orion_recall.foreground import CUT_BY_CALLER

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

log = logging.getLogger("orion_recall.sources")
T = TypeVar("T")

_CONNECTIONS = 32
_PAUSE_AFTER_FAILURE_S = 2.0
_GIVEN_UP_S = 0.5
WRITE_S = 30.0
_LONGEST_WORDS = 200


class CollectionLost(TransientSourceError):
    """The collection is not there any more."""


class QdrantServer:
    """One server or cluster by its client. `address` names it in errors."""

    # Time limits of calls, in seconds: for optional reads of a recall, and for reads.
    aside_s, read_s = 0.3, 5.0

    def __init__(self, client: AsyncQdrantClient, address: str) -> None:
        # Not at the top: the client costs a process 44 MiB and a second, and few processes ask a server.
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        self._unread, self._refused, self._busy = ResponseHandlingException, UnexpectedResponse, QdrantException
        self.client, self.address = client, address
        self._retry_at = 0.0

    @classmethod
    def at(cls, url: str, *, api_key: str | None = None) -> QdrantServer:
        """The server at an address (http or https; the port is 6333 unless the address has one). Sends nothing."""
        from qdrant_client import AsyncQdrantClient

        address = url.rstrip("/")
        is_loopback = urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")
        if api_key is not None and address.startswith("http://") and not is_loopback:
            log.warning(
                "the key of %s crosses the network unencrypted: write https:// in ORION_QDRANT_URL", address
            )
        client = AsyncQdrantClient(
            url=address,
            # As a header of ours: the client warns of any key without TLS, loopback included.
            headers={"api-key": api_key} if api_key is not None else None,
            timeout=int(WRITE_S) + 1,
            check_compatibility=False,  # it asks in a thread of its own, and warns by `warnings`
            # Its own default for this machine is a new connection for every call.
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            # Loading the trusted authorities takes 50 ms and is only needed for https.
            verify=address.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        return cls(client, address)

    async def close(self) -> None:
        await self.client.close()

    async def ask_if_well(self, call: Callable[[], Awaitable[T]], timeout_s: float | None = None) -> T:
        """As `ask`, but fails at once for two seconds after a failure, so that callers can fall back."""
        if time.monotonic() < self._retry_at:
            raise TransientSourceError(
                f"the index at {self.address} failed a moment ago: it is asked again in two seconds"
            )
        return await self.ask(call(), timeout_s)

    async def ask(self, call: Awaitable[T], timeout_s: float | None = None) -> T:
        """What the call gives. TransientSourceError when the server is away, late or busy (CollectionLost when it
        does not know the collection), SourceError when it refuses, QueryNotTaken when what was asked is to blame.

        `timeout_s`: for all of it; the client's own limits are for each single read.
        """
        began = time.monotonic()
        try:
            answer = await self._told(call, self.read_s if timeout_s is None else timeout_s)
        except (CollectionLost, AnotherRecordsCopy, QueryNotTaken):  # the server is well
            raise
        except SourceError:
            self._retry_at = time.monotonic() + _PAUSE_AFTER_FAILURE_S
            raise
        except asyncio.CancelledError:
            # A recall had waited long enough, unless its own caller waits for less than others.
            if time.monotonic() - began > _GIVEN_UP_S and not CUT_BY_CALLER.get():
                self._retry_at = time.monotonic() + _PAUSE_AFTER_FAILURE_S
            raise
        self._retry_at = 0.0
        return answer

    async def _told(self, call: Awaitable[T], timeout_s: float) -> T:
        where = f"the index at {self.address}"
        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError as error:
            raise TransientSourceError(f"{where} did not answer within {timeout_s:g} s") from error
        except self._unread as error:
            raise _unread(where, error.source) from error
        except (ValueError, AssertionError) as error:  # the client's own way to say that it cannot read an answer
            raise _unread(where, error) from error
        except self._busy as error:
            raise TransientSourceError(f"{where} is busy") from error
        except self._refused as error:
            raise _refused(where, error.status_code or 0, error.content) from error


def _unread(where: str, cause: Exception) -> SourceError:
    if isinstance(cause, httpx.TimeoutException):
        return TransientSourceError(f"{where} did not answer in time")
    if isinstance(cause, httpx.TransportError | OSError):
        why = f": {cause}"[:200] if "CERTIFICATE" in str(cause) else ""
        return TransientSourceError(f"{where} cannot be reached ({type(cause).__name__}{why})")
    return SourceError(f"{where} does not answer as Qdrant does ({type(cause).__name__}): check ORION_QDRANT_URL")


def _refused(where: str, status: int, content: bytes) -> SourceError:
    words = _words(content)
    if status in (401, 403):
        return SourceError(f"{where} refuses the key ({status}): check ORION_QDRANT_API_KEY and what it may do")
    if status == 404 and words:
        return CollectionLost(f"{where}: {words}")
    if status == 404:
        return SourceError(f"{where} does not answer as Qdrant does ({status}): check ORION_QDRANT_URL")
    if status == 429 or status >= 500:
        return TransientSourceError(f"{where} answers {status}{f': {words}' if words else ''}")
    kind = QueryNotTaken if status in (400, 422) else SourceError
    return kind(f"{where} refuses the request ({status}){f': {words}' if words else ''}")


def _words(content: bytes) -> str:
    """What Qdrant says of an error, in one line; "" when it says nothing, or might quote what we sent."""
    try:
        words: Any = json.loads(content)["status"]["error"]
    except (ValueError, TypeError, KeyError):
        return ""
    is_told = isinstance(words, str) and not words.startswith("Format error")
    return " ".join(words.split())[:_LONGEST_WORDS] if is_told else ""
