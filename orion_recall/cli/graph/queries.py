"""`orion-recall graph path`, `query` and `sparql`: paths with their evidence, a subset of Cypher, SPARQL."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, Tenant
from orion_recall.cli.graph.reading import TimeOut, entity_named, with_graph
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import (
    JsonFlag,
    NotFound,
    console,
    counted,
    limited,
    listed,
    note,
    print_json,
    show,
    table,
    visible,
)
from orion_recall.errors import ModelError, SourceError
from orion_recall.graph.cypher.execution import Cell, QueryResult, run_cypher, similar_in_graph, similar_in_index
from orion_recall.graph.stores.reader import GraphReader, check_select
from orion_recall.graph.stores.sparql_client import SparqlTable
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.vocabulary import shown, tenant_graph
from orion_recall.graph.walks.path import Path, PathBounds, Paths, find_path
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.graph import NamesByMeaning
from orion_recall.values import TimeRange

_ENDED = {
    "exhausted": "there is no path of up to {hops} hops",
    "expansions": "no path was found among the first {expansions} entities",
    "deadline": "no path was found in time (--timeout)",
}
_WITH_VIA = 3


def show_path(
    source: Annotated[str, typer.Argument(metavar="A", help="Name of the entity where it begins.")],
    target: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Name of the entity where it ends; not needed with --via.")
    ] = None,
    via: Annotated[
        str | None, typer.Option("--via", help="Relations to follow, in order: sister,employer.")
    ] = None,
    during: Annotated[
        str | None,
        typer.Option("--during", metavar="TIME", help=f"A time that the text should tell: {MOMENT_HELP}"),
    ] = None,
    max_hops: Annotated[int, typer.Option("--max-hops", min=1, max=8, help="Edges at most.")] = 4,
    tenant: Tenant = None,
    timeout: TimeOut = 5.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Find the path from one entity to another, or along a chain of relations, with the memories that state it.

    Paths of few hops come first, then those that many and recent memories state and that avoid entities with very
    many edges. With --during those come first whose memories tell of that time. With --via up to three ends are
    shown, the best first.

    Example: `orion-recall graph path Ana --via sister,employer`
    """
    words = tuple(word.strip() for word in via.split(",") if word.strip()) if via is not None else ()
    if target is None and not words:
        raise typer.BadParameter("give where it ends, or --via")
    if len(words) > 8:
        raise typer.BadParameter("--via takes up to 8 relations")
    bounds = PathBounds(max_hops=max_hops, deadline_s=timeout, paths=1 if target is not None else _WITH_VIA)

    async def search(graph: GraphReader, settings: Settings) -> Paths:
        whose = tenant or settings.default_tenant
        seed = await entity_named(source, graph, whose)
        end = await entity_named(target, graph, whose) if target is not None else None
        found = await find_path(
            graph, whose, seed, end, via=words, now=time.time(), bounds=bounds, during=_period(during)
        )
        if not found.paths:
            ends = {seed: source} if end is None or target is None else {seed: source, end: target}
            edges = await TenantGraph(graph, whose).edges(list(ends), limit=1)
            alone.extend(name for iri, name in ends.items() if not edges[iri])
        return found

    alone: list[str] = []
    found = with_graph(data, timeout + 1.0, search)
    if as_json:
        print_json(found)
        return 0 if found.paths else 1
    if not found.paths:
        told = _ENDED[found.ended].format(hops=len(words) or max_hops, expansions=bounds.max_expansions)
        raise NotFound(f"{told}: no statement connects {' or '.join(alone)} with anything" if alone else told)
    for path in found.paths:
        _show_path(path)
    if found.cut:
        note(f"{counted(found.cut, 'entity')} had more than {bounds.edges} edges: only so many were followed")
    return 0


def _period(during: str | None) -> Sequence[TimeRange]:
    start, end = moment("--during", during), moment("--during", during, end=True)
    if start is None or end is None:
        return ()
    return ((start.timestamp(), max(end.timestamp(), start.timestamp() + 1.0)),)


def _show_path(path: Path) -> None:
    out = console()
    out.print(Text(visible(" → ".join(path.entities)), style="bold"), Text(f"  cost {path.cost:.2f}", style="dim"))
    for step in path.steps:
        parts = ", ".join(f"{name} {part:.2f}" for name, part in step.cost.items() if part)
        seen = f", last {_day(step.seen)}" if step.seen is not None else ""
        out.print(
            Text(f"  {visible(step.text)}"), Text(f"({step.weight:g}x{seen}; {parts})", style="dim"), soft_wrap=True
        )
        for memory in step.memories:
            when = f" {_day(memory.ts)}" if memory.ts is not None else ""
            when += f"; tells {shown(memory.told)}" if memory.told else ""
            out.print(
                Text(visible(f"    [{memory.id}{when}] {' '.join(memory.text.split())[:160]}"), style="dim"),
                soft_wrap=True,
            )


def _day(moment: float) -> str:
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "at no date"


def run_query(
    query: Annotated[str, typer.Argument(metavar="CYPHER", help="MATCH … [WHERE …] RETURN … [LIMIT …]")],
    tenant: Tenant = None,
    timeout: TimeOut = 10.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a small Cypher query over the graph: MATCH, WHERE with =, SIMILAR and AND, RETURN, LIMIT (default: 100).

    Nodes are entities: Person, Place, Organisation, Speaker or Entity. Relations are the graph's own, such as
    WORKS_AT. Hops go up to five: *1..5. SIMILAR finds names like a text. `graph sparql` finds memories, counts,
    sorts and compares.

    Example: `orion-recall graph query "MATCH (a:Person {name: 'Ana'})-[r]-(b) RETURN b, r.text LIMIT 10"`
    """

    async def run(graph: GraphReader, settings: Settings) -> QueryResult:
        async with contextlib.AsyncExitStack() as stack:

            async def similar(text: str, whose: str, limit: int) -> Sequence[str]:
                if settings.qdrant_url is not None:
                    try:
                        return await _similar_in_index(settings, stack, text, whose, limit)
                    except (ModelError, SourceError) as error:
                        note(f"names are compared by words and letters: {error}")
                return await similar_in_graph(graph, text, whose, limit)

            return await run_cypher(query, graph, tenant or settings.default_tenant, similar, timeout_s=timeout)

    answer = with_graph(data, timeout, run)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    listed(
        {"columns": answer.columns, "rows": rows},
        answer.columns,
        [[_shown(cell) for cell in row] for row in answer.rows],
        as_json=as_json,
        nothing="nothing matches",
    )


def _shown(cell: Cell) -> Any:
    """A node or an edge as one line."""
    if not isinstance(cell, Mapping):
        return cell
    return cell["text"] if cell["is"] == "relation" else cell["name"]


async def _similar_in_index(
    settings: Settings, stack: contextlib.AsyncExitStack, text: str, tenant: str, limit: int
) -> Sequence[str]:
    """As the index on its server has it. An embedded one belongs to its worker alone."""
    assert settings.qdrant_url is not None
    embedder = await stack.enter_async_context(open_embedder(settings))
    server = QdrantServer.at(settings.qdrant_url, api_key=settings.qdrant_key)
    index = QdrantIndex(server, settings.qdrant_collection, embedder, SparseEncoder(settings.keyword_weights))
    stack.push_async_callback(index.close)
    return await similar_in_index(text, tenant, limit, finder=index, meaning=NamesByMeaning(index, embedder))


def run_sparql(
    query: Annotated[str, typer.Argument(metavar="SPARQL", help="A SELECT.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    tenant: Tenant = None,
    timeout: TimeOut = 10.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a SPARQL SELECT over one tenant's graph; SERVICE and updates are refused.

    The tenant's graph is the default graph, and the only named one.

    Example: `orion-recall graph sparql "SELECT ?text WHERE { ?edge <urn:orion:vocabulary:text> ?text }" --limit 5`
    """
    check_select(query)

    async def run(graph: GraphReader, settings: Settings) -> SparqlTable:
        whose = tenant_graph(tenant or settings.default_tenant)
        return await graph.table(query, graph=whose, limit=limit)

    found = with_graph(data, timeout, run)
    show(
        {"columns": found.columns, "rows": found.rows, "truncated": found.truncated},
        table(found.columns, found.rows),
        as_json=as_json,
        remarks=[limited(limit + 1, limit, "row") if found.truncated else None],
    )
