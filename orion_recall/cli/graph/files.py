"""`orion-recall graph viz` and `export`: the graph as a page, and as CSV files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rdflib import URIRef
from rich.progress import TextColumn

from orion_recall.atomic_file import whole_text
from orion_recall.cli.connect.addresses import DataFolder, Tenant, find
from orion_recall.cli.graph.reading import TimeOut, entity_named, with_graph
from orion_recall.cli.output import JsonFlag, bars, counted, show
from orion_recall.errors import SettingsError, SourceError, TransientSourceError
from orion_recall.graph.exchange.csv_files import (
    Select,
    tenant_of,
    tenants,
    write_csv,
)
from orion_recall.graph.exchange.picture import Subgraph, page, subgraph_around
from orion_recall.graph.stores.reader import GraphReader, open_graph_reader
from orion_recall.graph.vocabulary import tenant_graph
from orion_recall.settings import Settings
from orion_recall.text.normal import storable

# For one page of the graph; a long export asks for many.
_PAGE_S = 120.0

OneTenant = Annotated[str | None, typer.Option(metavar="NAME", help="This tenant's graph alone.")]


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
    as_json: JsonFlag = False,
) -> None:
    """Draw entities and their relations as one HTML page, which loads nothing else.

    The colour of a node is its kind; the width of an edge is the number of memories that state it; a click shows
    them.

    Example: `orion-recall graph viz Ana Bergen --out graph.html`
    """

    async def gather(graph: GraphReader, settings: Settings) -> tuple[Subgraph, str]:
        whose = tenant or settings.default_tenant
        try:
            async with asyncio.timeout(timeout):
                found = [await entity_named(name, graph, whose) for name in entities or ()]
                unique = list(dict.fromkeys(found))
                return await subgraph_around(graph, whose, unique, max_nodes=max_nodes, hops=hops), whose
        except TimeoutError as error:
            raise TransientSourceError(
                f"the picture took longer than {timeout:g} s: allow fewer nodes, or more time"
            ) from error

    part, whose = with_graph(data, timeout, gather)
    title = f"Around {', '.join(entities)}" if entities else f"The graph of {whose}"
    with whole_text(out) as file:
        file.write(page(part, title=title))
    more = " (there are more: --max-nodes, --hops)" if part.cut else ""
    show(
        {"file": str(out), "entities": len(part.nodes), "edges": len(part.edges), "cut": part.cut},
        as_json=as_json,
        remarks=[f"{out}: {counted(len(part.nodes), 'entity')} and {counted(len(part.edges), 'edge')}{more}"],
    )


def export_graph(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="For nodes.csv and edges.csv.")],
    tenant: OneTenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the graph as nodes.csv and edges.csv. A running worker is not disturbed.

    Example: `orion-recall graph export --out graph/`
    """
    settings = find(data)
    if out.exists() and not out.is_dir():
        raise SettingsError(f"{out} already exists: name a folder")

    async def write(advanced: Callable[[int], None]) -> list[URIRef]:
        async with open_graph_reader(settings, timeout_s=_PAGE_S) as graph:
            names = await _graphs(graph.select, tenant)
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
        as_json=as_json,
    )


async def _graphs(select: Select, tenant: str | None) -> list[URIRef]:
    held = await tenants(select)
    if tenant is None:
        if not held:
            raise SourceError("the graph holds no memories yet")
        return held
    if storable(tenant) != tenant or tenant_graph(tenant) not in held:
        raise SourceError(f"the graph holds no memories of a tenant {tenant!r}")
    return [tenant_graph(tenant)]
