"""Read-only access to the graph for commands, while a worker writes it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import pyoxigraph
from pyparsing import ParseBaseException
from rdflib import URIRef
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue

from orion_recall.errors import GraphQueryError, SettingsError, SourceError, TransientSourceError
from orion_recall.graph.projection.updates import METADATA_QUERY, position_in
from orion_recall.graph.stores.oxigraph import rows_of
from orion_recall.graph.stores.sparql_client import Form, SparqlClient, SparqlServer
from orion_recall.graph.vocabulary import Row
from orion_recall.index.embedded.folders import live_place
from orion_recall.index.engine_threads import translated
from orion_recall.settings import Settings

MOST_CHARACTERS = 50_000
_FORMS: dict[str, Form] = {
    "SelectQuery": "SELECT", "AskQuery": "ASK", "ConstructQuery": "CONSTRUCT", "DescribeQuery": "DESCRIBE",
}  # fmt: skip
_UPDATE = re.compile(r"\b(insert|delete|load|clear|create|drop|copy|move|add|with)\b", re.IGNORECASE)
# The engine's parser may differ from this one: whatever looks like a SERVICE call counts as one.
_SPACE = r"(?:\s|#[^\n]*\n)*"
_SERVICE = re.compile(rf"(?<![?$:\w])service{_SPACE}(?:silent{_SPACE})?(?:<|\?|\$|[\w.-]*:)", re.IGNORECASE)


def reading_form(query: str, *, confined: bool) -> Form:
    """The form of a reading query; GraphQueryError for an update, for SERVICE, and for what does not parse.

    `confined`: FROM, which would choose another data set, is an error, too.
    """
    if len(query) > MOST_CHARACTERS:
        raise GraphQueryError(f"the query has {len(query)} characters: {MOST_CHARACTERS} are the most")
    try:
        query.encode()
        parsed = parseQuery(query)
    except UnicodeEncodeError as error:
        raise GraphQueryError("the query holds half a character") from error
    except RecursionError as error:
        raise GraphQueryError("the query is nested too deeply") from error
    except ParseBaseException as error:
        first = re.sub(r"(?i)(\s|#[^\n]*\n|(prefix\s+\S+|base)\s+<[^>]*>)*", "", query, count=1)
        if _UPDATE.match(first):
            raise GraphQueryError(
                "this is an update: only SELECT, ASK, CONSTRUCT and DESCRIBE are allowed"
            ) from None
        raise GraphQueryError(
            "this is no SPARQL query from here on", text=query, line=error.lineno, column=error.column
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError) as error:
        raise GraphQueryError(f"the query cannot be read: {type(error).__name__}") from error
    found = _names(parsed)
    forms: list[Form] = [_FORMS[name] for name in found if name in _FORMS]
    if not forms:
        raise GraphQueryError("only SELECT, ASK, CONSTRUCT and DESCRIBE are allowed")
    if "ServiceGraphPattern" in found or _SERVICE.search(_unescaped(query)):
        raise GraphQueryError("SERVICE is not allowed: no other server is queried")
    if confined and "DatasetClause" in found:
        raise GraphQueryError("FROM is not allowed: the query runs on one tenant's graph (--tenant, --all-tenants)")
    return forms[0]


def _names(parsed: Any) -> list[str]:
    """The names of everything in the parse tree, outermost first."""
    return [name for part in parsed for name in _walk(part)]


def _walk(part: Any) -> Iterator[str]:
    waiting: list[Any] = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, CompValue):
            yield one.name
            waiting.extend(cast("dict[str, Any]", one).values())
        elif not isinstance(one, str) and hasattr(one, "__iter__"):
            waiting.extend(one)


def _unescaped(query: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = int(match[0][2:], 16)
        return chr(code) if code <= 0x10FFFF else match[0]

    return re.sub(r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}", character, query)


T = TypeVar("T")

_WAITS_S = (0.02, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlAnswer:
    """The answer to a SPARQL query of any form: rows of a SELECT, the truth of an ASK, or triples.

    Triples are rows of (subject, predicate, object) in N-Triples syntax. `truncated`: the limit cut rows off.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    truth: bool | None = None
    truncated: bool = False


class GraphReader(Protocol):
    """A graph open for reading."""

    async def select(self, query: str) -> Sequence[Row]: ...

    async def answer(self, query: str, form: Form, *, graph: URIRef | None, limit: int) -> SparqlAnswer:
        """The answer to a query, over one named graph alone or (None) over the whole data set."""
        ...


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
    """The graph on the server, else in the data folder; SourceError when there is none.

    A query that takes longer than `timeout_s` seconds is a TransientSourceError.
    """
    server = sparql_server(settings)
    if server is not None:
        client = SparqlClient(server, query_timeout_s=timeout_s)
        try:
            yield _ServerReader(client)
        finally:
            await client.close()
        return
    reader = _FolderReader(settings.data_dir / "graph", timeout_s)
    await reader.open()
    yield reader


def _opened(folder: Path) -> pyoxigraph.Store:
    place = live_place(folder)
    if not (place / "store" / "CURRENT").is_file():
        raise SourceError(
            f"there is no graph in {folder}: start `orion-recall up`, name its data folder with --data, or set "
            "ORION_SPARQL_URL"
        )
    for wait_s in (*_WAITS_S, None):
        try:
            return pyoxigraph.Store.read_only(str(place / "store"))
        except (OSError, RuntimeError, ValueError) as error:
            # The writer may have removed a file between listing and opening it.
            if wait_s is None:
                raise SourceError(f"the graph in {folder} cannot be read: {error}") from error
            time.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


class _ServerReader:
    def __init__(self, client: SparqlClient) -> None:
        self._client = client

    async def select(self, query: str) -> Sequence[Row]:
        return await self._client.select(query)

    async def answer(self, query: str, form: Form, *, graph: URIRef | None, limit: int) -> SparqlAnswer:
        result = await self._client.answer(query, form, graph=None if graph is None else str(graph))
        if form == "ASK":
            return SparqlAnswer(truth=bool(result.askAnswer))
        if form in ("CONSTRUCT", "DESCRIBE"):
            triples = sorted(tuple(term.n3() for term in triple) for triple in result.graph or ())
            return SparqlAnswer(columns=_TRIPLE, rows=tuple(triples[:limit]), truncated=len(triples) > limit)
        columns = tuple(str(name) for name in result.vars or ())
        found: list[tuple[str | None, ...]] = [
            tuple(None if (value := row.get(name)) is None else str(value) for name in result.vars or ())
            for row in result.bindings[: limit + 1]
        ]
        return SparqlAnswer(columns=columns, rows=tuple(found[:limit]), truncated=len(found) > limit)


_TRIPLE = ("subject", "predicate", "object")


class _FolderReader:
    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        self._store: pyoxigraph.Store | None = None

    async def open(self) -> None:
        """SourceError when there is no graph, or when it cannot be read."""
        self._store = await _in_a_thread(self._opened, self._timeout_s)

    async def select(self, query: str) -> Sequence[Row]:
        return await _in_a_thread(lambda: self._again(lambda store: rows_of(store, query)), self._timeout_s)

    async def answer(self, query: str, form: Form, *, graph: URIRef | None, limit: int) -> SparqlAnswer:
        return await _in_a_thread(
            lambda: self._again(lambda store: _answer(store, query, graph, limit)), self._timeout_s
        )

    def _opened(self) -> pyoxigraph.Store:
        store = _opened(self._folder)
        if position_in(rows_of(store, METADATA_QUERY)) is None:
            raise SourceError(f"the graph in {self._folder} is not built yet: a worker that starts on it builds it")
        return store

    def _again(self, work: Callable[[pyoxigraph.Store], T]) -> T:
        """The result of `work`; when the writer has removed a file, once more on the store reopened."""
        assert self._store is not None
        try:
            return work(self._store)
        except OSError:
            self._store = _opened(self._folder)
            return work(self._store)


def _answer(store: pyoxigraph.Store, query: str, graph: URIRef | None, limit: int) -> SparqlAnswer:
    # The data set given here overrides a query's own FROM.
    only = None if graph is None else pyoxigraph.NamedNode(str(graph))
    found = store.query(query, default_graph=only, named_graphs=None if only is None else [only])
    if isinstance(found, pyoxigraph.QueryBoolean):
        return SparqlAnswer(truth=bool(found))
    columns, rows = _TRIPLE, list[tuple[str | None, ...]]()
    if isinstance(found, pyoxigraph.QuerySolutions):
        columns = tuple(variable.value for variable in found.variables)
    for one in found:
        if len(rows) == limit:
            return SparqlAnswer(columns=columns, rows=tuple(rows), truncated=True)
        if isinstance(one, pyoxigraph.Triple):
            rows.append((str(one.subject), str(one.predicate), str(one.object)))
        else:
            rows.append(tuple(None if value is None else _text(value) for value in one))
    return SparqlAnswer(columns=columns, rows=tuple(rows))


def _text(value: Any) -> str:
    return str(value) if isinstance(value, pyoxigraph.Triple | pyoxigraph.BlankNode) else value.value


async def _in_a_thread(work: Callable[[], T], timeout_s: float) -> T:
    """The result of `work`. A running query cannot be cancelled: a late thread ends with the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # pyright: ignore[reportArgumentType]

    def run() -> None:
        value, failure = None, None
        try:
            value = translated("the graph", work)
        except SourceError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="graph-reader", daemon=True).start()
    try:
        async with asyncio.timeout(timeout_s):
            return await done
    except TimeoutError as error:
        raise TransientSourceError(f"the graph gave no answer within {timeout_s:g} s") from error
