"""Read-only access to the graph for commands, while a worker writes it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast

import pyoxigraph
from pyparsing import ParseBaseException
from rdflib import URIRef
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue

from orion_recall.errors import GraphQueryError, SettingsError, SourceError, TransientSourceError
from orion_recall.graph.projection import METADATA_QUERY, Metadata
from orion_recall.graph.stores.oxigraph import columns_and_rows, rows_of
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer, SparqlTable
from orion_recall.graph.vocabulary import Row
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.engine_threads import translated
from orion_recall.settings import Settings

MOST_CHARACTERS = 50_000
_UPDATE = re.compile(r"\b(insert|delete|load|clear|create|drop|copy|move|add|with)\b", re.IGNORECASE)
# The engine's parser may differ from this one: whatever looks like a SERVICE call counts as one.
_ESCAPED = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})")
_SPACE = r"(?:\s|#[^\n]*\n)*"
_SERVICE = re.compile(rf"(?<![?$:\w])service{_SPACE}(?:silent{_SPACE})?(?:<|\?|\$|[\w.-]*:)", re.IGNORECASE)


def check_select(query: str) -> None:
    """GraphQueryError for all but a SELECT over the data set that it is given: no SERVICE, and no FROM."""
    if len(query) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(query)} characters: {MOST_CHARACTERS} are the most")
    try:
        query.encode()
        found = set(_names(parseQuery(query)))
    except UnicodeEncodeError as error:
        raise GraphQueryError("the query holds half a character") from error
    except RecursionError as error:
        raise GraphQueryError("the query is nested too deeply") from error
    except ParseBaseException as error:
        first = re.sub(r"(?i)(\s|#[^\n]*\n|(prefix\s+\S+|base)\s+<[^>]*>)*", "", query, count=1)
        if _UPDATE.match(first):
            raise GraphQueryError("this is an update: only SELECT is allowed") from None
        raise GraphQueryError(
            "this is no SPARQL query from here on", text=query, line=error.lineno, column=error.column
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError) as error:
        raise GraphQueryError(f"the query cannot be read: {type(error).__name__}") from error
    if "SelectQuery" not in found or found & {"AskQuery", "ConstructQuery", "DescribeQuery"}:
        raise GraphQueryError("only SELECT is allowed: ASK, CONSTRUCT and DESCRIBE are written as one")
    plain = _ESCAPED.sub(lambda one: chr(int(one[0][2:], 16)), query)
    if "ServiceGraphPattern" in found or _SERVICE.search(plain):
        raise GraphQueryError("SERVICE is not allowed: no other server is queried")
    if "DatasetClause" in found:
        raise GraphQueryError("FROM is not allowed: the query runs on one tenant's graph (--tenant)")


def _names(parsed: Any) -> Iterator[str]:
    waiting: list[Any] = [*parsed]
    while waiting:
        one = waiting.pop()
        if isinstance(one, CompValue):
            yield one.name
            waiting.extend(cast("dict[str, Any]", one).values())
        elif not isinstance(one, str) and hasattr(one, "__iter__"):
            waiting.extend(one)


T = TypeVar("T")

_WAITS_S = (0.02, 0.05, 0.1, 0.2, 0.4)


def sparql_server(settings: Settings) -> SparqlServer | None:
    """The server in the settings, None for the embedded graph. SettingsError for parts of it without its URL."""
    if settings.sparql_url is None:
        for name in ("sparql_update_url", "sparql_user", "sparql_password", "sparql_token"):
            if getattr(settings, name) is not None:
                raise SettingsError(f"ORION_{name.upper()} is set and ORION_SPARQL_URL is not: set both or neither")
        return None
    return SparqlServer(
        url=settings.sparql_url,
        update_url=settings.sparql_update_url,
        user=settings.sparql_user,
        password=settings.sparql_password,
        token=settings.sparql_token,
    )


@contextlib.asynccontextmanager
async def open_graph_reader(settings: Settings, *, timeout_s: float) -> AsyncGenerator[GraphReader]:
    """The graph on the server, else in the data folder; a query that takes too long is a TransientSourceError."""
    if (server := sparql_server(settings)) is None:
        folder = settings.data_dir / "graph"
        reader = FolderReader(folder, timeout_s, await _in_a_thread(lambda: _opened(folder), timeout_s))
        if not Metadata.read(await reader.select(METADATA_QUERY)).is_built:
            raise SourceError(f"the graph in {folder} is not built yet: a worker that starts on it builds it")
        yield reader
        return
    client = SparqlClient(server, query_timeout_s=timeout_s)
    try:
        yield client
    finally:
        await client.close()


def _opened(folder: Path) -> pyoxigraph.Store:
    place = live_place(folder)
    if not (place / "store" / "CURRENT").is_file():
        raise SourceError(
            f"there is no graph in {folder}: start `orion-recall up`, name its data folder with --data, or set "
            "ORION_SPARQL_URL"
        )
    waits = iter(_WAITS_S)
    while True:
        try:
            return pyoxigraph.Store.read_only(str(place / "store"))
        except (OSError, RuntimeError, ValueError) as error:
            # The writer may have removed a file between listing and opening it.
            if (wait_s := next(waits, None)) is None:
                raise SourceError(f"the graph in {folder} cannot be read: {error}") from error
        time.sleep(wait_s)


class FolderReader:
    """The graph in a folder that a worker may be writing to."""

    def __init__(self, folder: Path, timeout_s: float, store: pyoxigraph.Store) -> None:
        self._folder, self._timeout_s, self._store = folder, timeout_s, store

    async def select(self, query: str) -> Sequence[Row]:
        return await self._read(lambda store: rows_of(store, query))

    async def table(self, query: str, *, graph: URIRef, limit: int) -> SparqlTable:
        # The data set given here overrides a query's own FROM.
        only = pyoxigraph.NamedNode(str(graph))
        return await self._read(lambda store: SparqlTable.of(*columns_and_rows(store, query, only=only), limit))

    async def _read(self, work: Callable[[pyoxigraph.Store], T]) -> T:
        def read() -> T:
            try:
                return work(self._store)
            except OSError:  # the writer has removed a file
                self._store = _opened(self._folder)
                return work(self._store)

        return await _in_a_thread(read, self._timeout_s)


GraphReader = FolderReader | SparqlClient
"""A graph open for reading."""


async def _in_a_thread(work: Callable[[], T], timeout_s: float) -> T:
    """The result of `work`. A running query cannot be cancelled: a late thread ends with the process."""
    done = Future[T]()

    def run() -> None:
        try:
            done.set_result(translated("the graph", work))
        except SourceError as error:
            done.set_exception(error)

    done.set_running_or_notify_cancel()
    threading.Thread(target=run, name="graph-reader", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.wrap_future(done)
    except TimeoutError as error:
        raise TransientSourceError(f"the graph gave no answer within {timeout_s:g} s") from error
