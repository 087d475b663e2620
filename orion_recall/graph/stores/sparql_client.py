"""The SPARQL 1.1 protocol (https://www.w3.org/TR/sparql11-protocol/) over HTTP: bounded in time, size, connections.

Errors carry the server's address without its secrets, never the query or the server's own words, which repeat it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx
from pydantic import SecretStr
from rdflib import URIRef

from orion_recall.errors import QueryNotTaken, SettingsError, SourceError, TransientSourceError
from orion_recall.graph.vocabulary import Row
from orion_recall.tasks import Slots

log = logging.getLogger("orion_recall.sources")


_RESULTS = "application/sparql-results+json"
_JSON = frozenset({_RESULTS, "application/json"})
_CONNECT_S, _POOL_S, _UPDATE_S = 2.0, 0.5, 60.0
# Longer answers are parsed in a thread.
_PARSED_INLINE_BYTES = 64 * 1024
_TERMS = frozenset({"uri", "literal", "typed-literal", "bnode"})
_RETRYABLE_STATUS = frozenset({408, 425, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlServer:
    """The addresses and credentials of a SPARQL server; SettingsError for values that cannot be right.

    Without `update_url` updates go to the query address, with a last `/query` in it made `/update`.
    """

    url: str
    update_url: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None

    def __post_init__(self) -> None:
        if self.token is not None and (self.user is not None or self.password is not None):
            raise SettingsError(
                "ORION_SPARQL_TOKEN: set either this or ORION_SPARQL_USER and ORION_SPARQL_PASSWORD"
            )
        if (self.user is None) != (self.password is None):
            raise SettingsError("ORION_SPARQL_USER, ORION_SPARQL_PASSWORD: set both or neither")
        if self.user is not None and ":" in self.user:
            raise SettingsError("ORION_SPARQL_USER: a user's name in basic authentication has no colon")
        token = self.token.get_secret_value() if self.token is not None else "-"
        if not (token.isascii() and token.isprintable()) or " " in token or not token:
            raise SettingsError("ORION_SPARQL_TOKEN: a bearer token is one word of ASCII characters")

    @property
    def updates_at(self) -> str:
        if self.update_url is not None:
            return self.update_url
        parts = urlsplit(self.url)
        if not parts.path.endswith("/query"):
            return self.url
        return parts._replace(path=parts.path.removesuffix("query") + "update").geturl()


class SparqlTable(NamedTuple):
    """The columns and rows of a SELECT; `truncated`: the limit cut rows off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    truncated: bool

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Row], limit: int) -> SparqlTable:
        found = [tuple(row.get(name) for name in columns) for row in islice(rows, limit + 1)]
        return cls(tuple(columns), tuple(found[:limit]), len(found) > limit)


class SparqlClient:
    """Queries and updates one server. A call that is cancelled or runs out of time closes its connection.

    The server may go on working on it until its own limit (`oxigraph serve --timeout-s`).
    """

    max_bytes = 16 * 1024 * 1024

    def __init__(self, server: SparqlServer, *, query_timeout_s: float = 10.0, connections: int = 16) -> None:
        self.address = _shown(server.url)
        self._server, self._query_timeout_s = server, query_timeout_s
        self._connections = connections
        # Requests wait here and not in httpx, where a request cancelled while waiting keeps its connection for
        # ever (https://github.com/encode/httpcore/issues/1093).
        self._slots = Slots(connections)
        # Loading the trusted authorities takes 50 ms and is only needed for https.
        secure = any(url.startswith("https:") for url in (server.url, server.updates_at))
        self._trusted = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http: httpx.AsyncClient | None = self._connected()

    async def close(self) -> None:
        """Close all connections; a later call is a SourceError."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def select(self, query: str, *, timeout_s: float | None = None) -> list[Row]:
        return (await self._answered(self._server.url, query, timeout_s or self._query_timeout_s))[1]

    async def table(self, query: str, *, graph: URIRef, limit: int) -> SparqlTable:
        """The columns and rows of a SELECT over the one named graph.

        The data set is part of the request, as the protocol has it: it holds whatever FROM the query names.
        """
        dataset = urlencode({"default-graph-uri": graph, "named-graph-uri": graph})
        url = f"{self._server.url}{'&' if urlsplit(self._server.url).query else '?'}{dataset}"
        return SparqlTable.of(*await self._answered(url, query, self._query_timeout_s), limit)

    async def update(self, text: str) -> None:
        await self._post(self._server.updates_at, text, "update", _UPDATE_S)

    def _connected(self) -> httpx.AsyncClient:
        # No compression: what is unpacked cannot be bounded before it is.
        headers = {"Accept-Encoding": "identity", "User-Agent": "orion-recall"}
        user, password, token = self._server.user, self._server.password, self._server.token
        if token is not None:
            headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        return httpx.AsyncClient(
            headers=headers,
            auth=httpx.BasicAuth(user, password.get_secret_value())
            if user is not None and password is not None
            else None,
            verify=self._trusted,
            limits=httpx.Limits(max_connections=self._connections, max_keepalive_connections=self._connections),
            timeout=httpx.Timeout(self._query_timeout_s, connect=_CONNECT_S, pool=_POOL_S),
        )

    async def _post(self, url: str, text: str, kind: str, timeout_s: float) -> bytes:
        shown = f"the SPARQL server at {_shown(url)}"
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise QueryNotTaken(f"the {kind} for {shown} holds half a character, which cannot be sent") from error
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                return await self._answer(url, content, kind, timeout_s)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise TransientSourceError(f"{shown} gave no answer within {timeout_s:g} s") from error
        except httpx.PoolTimeout as error:
            # The semaphore had room, so the pool has lost connections: only a new pool has them back.
            log.warning("the connections to the SPARQL server at %s are opened anew", self.address)
            if (lost := self._http) is not None:
                self._http = self._connected()
                await lost.aclose()
            raise TransientSourceError(f"{shown}: no connection was free") from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = str(error)[:200] or type(error).__name__
            raise TransientSourceError(f"{shown} cannot be reached: {why}") from error
        except httpx.TransportError as error:
            raise TransientSourceError(f"{shown} broke off: {type(error).__name__}") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise SourceError(f"{shown} cannot be queried: {type(error).__name__}") from error

    async def _answer(self, url: str, content: bytes, kind: str, timeout_s: float) -> bytes:
        if self._http is None:
            raise SourceError(f"the connection to the SPARQL server at {self.address} is closed")
        headers = {"Content-Type": f"application/sparql-{kind}; charset=utf-8"}
        if kind == "query":
            headers["Accept"] = _RESULTS
        timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S, pool=_POOL_S)
        async with self._http.stream("POST", url, content=content, headers=headers, timeout=timeout) as response:
            _check(response, f"the SPARQL server at {_shown(url)}", kind)
            received = bytearray()
            async for part in response.aiter_raw():
                received += part
                if len(received) > self.max_bytes:
                    raise SourceError(
                        f"the SPARQL server at {_shown(url)} answers with more than {self.max_bytes:,} bytes"
                    )
            return bytes(received)

    async def _answered(self, url: str, query: str, timeout_s: float) -> tuple[list[str], list[Row]]:
        """The variables and rows of an answer (https://www.w3.org/TR/sparql11-results-json/)."""
        body = await self._post(url, query, "query", timeout_s)
        try:
            return _table(body) if len(body) <= _PARSED_INLINE_BYTES else await asyncio.to_thread(_table, body)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise SourceError(
                f"the SPARQL server at {self.address} answers with something other than the results of a SELECT"
            ) from error


def _table(body: bytes) -> tuple[list[str], list[Row]]:
    found = json.loads(body)
    rows = [dict(row.items()) for row in found["results"]["bindings"]]
    if not all(term["type"] in _TERMS for row in rows for term in row.values()):
        raise ValueError("terms of an unknown type")
    names = [str(name) for name in found["head"]["vars"]]
    return names, [{name: str(term["value"]) for name, term in row.items()} for row in rows]


def _check(response: httpx.Response, shown: str, kind: str) -> None:
    """SourceError when status or headers say that the body is not the wanted result."""
    status = response.status_code
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if status in _RETRYABLE_STATUS:
        raise TransientSourceError(f"{shown} answers {status}: it is overloaded or not ready")
    if not response.is_success:
        setting = "ORION_SPARQL_URL" if kind == "query" else "ORION_SPARQL_UPDATE_URL"
        told = f"{shown} answers {status} to a SPARQL {kind}; its own log says why"
        if status in (401, 403):
            login = "ORION_SPARQL_USER and ORION_SPARQL_PASSWORD, or ORION_SPARQL_TOKEN"
            told = f"{shown} answers {status}: it refuses the credentials, check {login}"
        elif 300 <= status < 400:
            told = f"{shown} answers {status}: it has moved, set its new address"
        elif status in (404, 405, 415):
            told = f"{shown} answers {status}: no {kind} is taken there, set the right address in {setting}"
        raise (QueryNotTaken if status in (400, 422) else SourceError)(told)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceError(f"{shown} answers with compressed content, though it was asked not to")
    if kind == "query" and media_type not in _JSON:
        raise SourceError(f"{shown} answers with {media_type[:80]!r}, no results: is it the query address?")


def _shown(url: str) -> str:
    """The address without user, password and query string, any of which may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
