"""`orion-recall graph`: paths with evidence, a subset of Cypher, SPARQL, the graph as a page and as CSV."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rdflib import URIRef
from rich.progress import TextColumn
from rich.text import Text

from orion_recall import errors
from orion_recall.atomic_file import whole_text
from orion_recall.cli.addresses import DataFolder, Tenant, find, within
from orion_recall.cli.options import MOMENT_HELP, moment
from orion_recall.cli.output import (
    NotFound,
    Remark,
    Shown,
    Table,
    bars,
    counted,
    group,
    limited,
    listed,
    note,
    show,
    visible,
    wants_json,
)
from orion_recall.graph.cypher import Cell, QueryResult, run_cypher, similar_in_graph
from orion_recall.graph.exchange.csv_files import tenant_of, tenants, write_csv
from orion_recall.graph.exchange.picture import Subgraph, page, subgraph_around
from orion_recall.graph.stores.reader import GraphReader, check_select, open_graph_reader
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.vocabulary import entity_iri, tenant_graph
from orion_recall.graph.vocabulary import shown as shown_time
from orion_recall.graph.walks import Path as FoundPath
from orion_recall.graph.walks import PathBounds, Paths, find_path
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.graph import entities_like
from orion_recall.text.normal import storable
from orion_recall.values import TimeRange

T = TypeVar("T")
TimeOut = Annotated[float, typer.Option("--timeout", min=0.1, max=600, help="Seconds to wait at most.")]
_ENDED = {
    "exhausted": "there is no path of up to {hops} hops",
    "expansions": "no path was found among the first {expansions} entities",
    "deadline": "no path was found in time (--timeout)",
}
_WITH_VIA = 3
_LEAST_COSINE = 0.5
# For one page of the graph; a long export asks for many.
_PAGE_S = 120.0

app = group("""Ask the graph that the memories make, draw it, and take it to other programs.

    It is read from the data folder while a worker runs, or from the server that ORION_SPARQL_URL names.

    Example: `orion-recall graph path Ana Bergen`
    """)


def with_graph(
    settings: Settings, tenant: str | None, timeout_s: float, work: Callable[[GraphReader, str], Awaitable[T]]
) -> T:
    """What `work` gives, of the graph that the settings name and the tenant: the given one, else the default."""
    opening = open_graph_reader(settings, timeout_s=timeout_s)
    return within(opening, lambda graph: work(graph, tenant or settings.default_tenant))


async def entity_named(name: str, graph: GraphReader, tenant: str) -> str:
    """The IRI of the entity of that name; OrionError that names the nearest when there is none."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise errors.GraphQueryError(f"{name!r} is no name: it holds half of a surrogate pair") from error
    found = (await TenantGraph(graph, tenant).named([name]))[name]
    if found:
        return found[0]
    near = await similar_in_graph(graph, name, tenant, 5)
    labels = await TenantGraph(graph, tenant).labels(near)
    hint = f"; similar names: {', '.join(labels[iri] for iri in near)}" if near else ""
    raise errors.OrionError(f"the graph of {tenant!r} has no entity named {name!r}{hint}")


@app.command("path")
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

    async def search(graph: GraphReader, whose: str) -> Paths:
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
    found = with_graph(find(data), tenant, timeout + 1.0, search)
    if not found.paths and not wants_json():
        told = _ENDED[found.ended].format(hops=len(words) or max_hops, expansions=bounds.max_expansions)
        raise NotFound(f"{told}: no statement connects {' or '.join(alone)} with anything" if alone else told)
    show(found, *(part for path in found.paths for part in _path_shown(path)))
    return 0 if found.paths else 1


def _period(during: str | None) -> Sequence[TimeRange]:
    start, end = moment("--during", during), moment("--during", during, end=True)
    if start is None or end is None:
        return ()
    return ((start.timestamp(), max(end.timestamp(), start.timestamp() + 1.0)),)


def _path_shown(path: FoundPath) -> Iterator[Shown]:
    entities = visible(" → ".join(path.entities))
    yield Text.assemble((entities, "bold"), (f"   cost {path.cost:.2f}", "dim"))
    for step in path.steps:
        parts = ", ".join(f"{name} {part:.2f}" for name, part in step.cost.items() if part)
        seen = f", last {_day(step.seen)}" if step.seen is not None else ""
        yield Text.assemble(f"  {visible(step.text)} ", (f"({step.weight:g}x{seen}; {parts})", "dim"))
        for memory in step.memories:
            when = f" {_day(memory.ts)}" if memory.ts is not None else ""
            when += f"; tells {shown_time(memory.told)}" if memory.told else ""
            said = " ".join(memory.text.split())[:160]
            yield Text(visible(f"    [{memory.id}{when}] {said}"), style="dim")


def _day(moment: float) -> str:
    try:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "at no date"


@app.command("query")
def run_query(
    query: Annotated[str, typer.Argument(metavar="CYPHER", help="MATCH … [WHERE …] RETURN … [LIMIT …]")],
    tenant: Tenant = None,
    timeout: TimeOut = 10.0,
    data: DataFolder = None,
) -> None:
    """Run a small Cypher query over the graph: MATCH, WHERE with =, SIMILAR and AND, RETURN, LIMIT (default: 100).

    Nodes are entities: Person, Place, Organisation, Speaker or Entity. Relations are the graph's own, such as
    WORKS_AT. Hops go up to five: *1..5. SIMILAR finds names like a text. `graph sparql` finds memories, counts,
    sorts and compares.

    Example: `orion-recall graph query "MATCH (a:Person {name: 'Ana'})-[r]-(b) RETURN b, r.text LIMIT 10"`
    """
    settings = find(data)

    async def run(graph: GraphReader, whose: str) -> QueryResult:
        async with contextlib.AsyncExitStack() as stack:

            async def similar(text: str) -> Sequence[str]:
                found = await similar_in_graph(graph, text, whose)
                try:
                    return list(dict.fromkeys((*found, *(await _near_in_meaning(settings, stack, text, whose)))))
                except (errors.ModelError, errors.SourceError) as error:
                    note(f"names are compared by words and letters: {error}")
                    return found

            return await run_cypher(query, graph, whose, similar, timeout_s=timeout)

    answer = with_graph(settings, tenant, timeout, run)
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    cells = [[_shown(cell) for cell in row] for row in answer.rows]
    listed({"columns": answer.columns, "rows": rows}, answer.columns, cells, nothing="nothing matches")


def _shown(cell: Cell) -> Any:
    if not isinstance(cell, Mapping):
        return cell
    return cell["text"] if cell["is"] == "relation" else cell["name"]


async def _near_in_meaning(
    settings: Settings, stack: contextlib.AsyncExitStack, text: str, tenant: str
) -> Sequence[str]:
    """Entities (IRIs) by the vectors of their names, in an index on a server: an embedded one is its worker's."""
    if settings.qdrant_url is None:
        return ()
    embedder = await stack.enter_async_context(open_embedder(settings))
    server = QdrantServer.at(settings.qdrant_url, api_key=settings.qdrant_key)
    sparse = SparseEncoder(settings.keyword_weights)
    index = QdrantIndex(server, settings.qdrant_collection, embedder, sparse, has_record=False)
    stack.push_async_callback(index.close)
    found = await entities_like(index, embedder, text, tenant, 50)
    return [str(entity_iri(label)) for label, cosine in found if cosine >= _LEAST_COSINE]


@app.command("sparql")
def run_sparql(
    query: Annotated[str, typer.Argument(metavar="SPARQL", help="A SELECT.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    tenant: Tenant = None,
    timeout: TimeOut = 10.0,
    data: DataFolder = None,
) -> None:
    """Run a SPARQL SELECT over one tenant's graph; SERVICE and updates are refused.

    The tenant's graph is the default graph, and the only named one.

    Example: `orion-recall graph sparql "SELECT ?text WHERE { ?edge <urn:orion:vocabulary:text> ?text }" --limit 5`
    """
    check_select(query)
    found = with_graph(
        find(data), tenant, timeout,
        lambda graph, whose: graph.table(query, graph=tenant_graph(whose), limit=limit),
    )  # fmt: skip
    value = {"columns": found.columns, "rows": found.rows, "truncated": found.truncated}
    show(value, Table(found.columns, found.rows), remarks=[limited(limit, "row") if found.truncated else None])


@app.command("viz")
def write_picture(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The file to write.")],
    entities: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENTITY]…", help="Entities to start from; without any: the strongest edges."),
    ] = None,
    max_nodes: Annotated[int, typer.Option("--max-nodes", min=1, max=1000, help="Entities at most.")] = 200,
    hops: Annotated[int, typer.Option("--hops", min=1, max=4, help="Edges away from the entities at most.")] = 2,
    tenant: Tenant = None,
    timeout: TimeOut = 30.0,
    data: DataFolder = None,
) -> None:
    """Draw entities and their relations as one HTML page, which loads nothing else.

    The colour of a node is its kind; the width of an edge is the number of memories that state it; a click shows
    them.

    Example: `orion-recall graph viz Ana Bergen --out graph.html`
    """

    async def gather(graph: GraphReader, whose: str) -> tuple[Subgraph, str]:
        try:
            async with asyncio.timeout(timeout):
                unique = list(dict.fromkeys([await entity_named(name, graph, whose) for name in entities or ()]))
                return await subgraph_around(graph, whose, unique, max_nodes=max_nodes, hops=hops), whose
        except TimeoutError as error:
            late = f"the picture took longer than {timeout:g} s: allow fewer nodes, or more time"
            raise errors.TransientSourceError(late) from error

    part, whose = with_graph(find(data), tenant, timeout, gather)
    title = f"Around {', '.join(entities)}" if entities else f"The graph of {whose}"
    with whole_text(out) as file:
        file.write(page(part, title=title))
    more = " (there are more: --max-nodes, --hops)" if part.cut else ""
    told = f"{out}: {counted(len(part.nodes), 'entity')} and {counted(len(part.edges), 'edge')}{more}"
    value = {"file": str(out), "entities": len(part.nodes), "edges": len(part.edges), "cut": part.cut}
    show(value, Remark(told))


@app.command("export")
def export_graph(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="For nodes.csv and edges.csv.")],
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="This tenant's graph alone.")] = None,
    data: DataFolder = None,
) -> None:
    """Write the graph as nodes.csv and edges.csv. A running worker is not disturbed.

    Example: `orion-recall graph export --out graph/`
    """
    settings = find(data)
    if out.exists() and not out.is_dir():
        raise errors.SettingsError(f"{out} already exists: name a folder")

    async def write(advanced: Callable[[int], None]) -> list[URIRef]:
        async with open_graph_reader(settings, timeout_s=_PAGE_S) as graph:
            held = await tenants(graph.select)
            wanted = None if tenant is None or storable(tenant) != tenant else tenant_graph(tenant)
            names = held if tenant is None else [one for one in held if one == wanted]
            if not names:
                whose = "" if tenant is None else f" of a tenant {tenant!r}"
                raise errors.SourceError(f"the graph holds no memories{whose}")
            await asyncio.to_thread(out.mkdir, parents=True, exist_ok=True)
            await write_csv(graph.select, names, out, advanced)
            return names

    written = 0
    with bars(TextColumn("{task.description}"), TextColumn("{task.completed:,}")) as shown:
        counting = shown.add_task("writing", total=None)

        def advanced(more: int) -> None:
            nonlocal written
            written += more
            shown.update(counting, completed=written)

        names = asyncio.run(write(advanced))
    show(
        {"out": str(out), "nodes": written, "tenants": [tenant_of(name) for name in names]},
        f"{out}: {counted(written, 'node')} of {counted(len(names), 'tenant')}",
    )
