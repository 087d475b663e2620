"""`orion-recall graph viz`: draws a part of the graph as an HTML page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.connect.addresses import DataFolder
from orion_recall.cli.graph.reading import TenantOption, TimeOut, entity_named, with_graph
from orion_recall.cli.output import JsonFlag, counted, note, print_json
from orion_recall.errors import TransientSourceError
from orion_recall.graph.exchange.picture import Subgraph, page, subgraph_around
from orion_recall.graph.stores.reader import GraphReader
from orion_recall.settings import Settings


def write_picture(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The file to write.")],
    entities: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENTITY]…", help="Entities to start from; without any: the strongest edges."),
    ] = None,
    max_nodes: Annotated[int, typer.Option("--max-nodes", min=1, max=1000, help="Entities at most.")] = 200,
    hops: Annotated[int, typer.Option("--hops", min=1, max=4, help="Edges away from the entities at most.")] = 2,
    tenant: TenantOption = None,
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
    told = {"file": str(out), "entities": len(part.nodes), "edges": len(part.edges), "cut": part.cut}
    if as_json:
        print_json(told)
    else:
        more = " (there are more: --max-nodes, --hops)" if part.cut else ""
        note(
            f"{out}: {counted(len(part.nodes), 'entity')} and {counted(len(part.edges), 'edge')}{more}",
        )
