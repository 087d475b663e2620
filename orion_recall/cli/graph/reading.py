"""For the graph commands: shared options, opening the graph read-only, finding entities by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from orion_recall.cli.connect.addresses import find
from orion_recall.errors import GraphQueryError, OrionError
from orion_recall.graph.cypher.execution import similar_in_graph
from orion_recall.graph.stores.reader import GraphReader, open_graph_reader
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.settings import Settings

T = TypeVar("T")
TimeOut = Annotated[float, typer.Option("--timeout", min=0.1, max=600, help="Seconds to wait at most.")]


def with_graph(data: Path | None, timeout_s: float, work: Callable[[GraphReader, Settings], Awaitable[T]]) -> T:
    """What `work` gives, with the graph that the environment names open for reading."""
    settings = find(data)

    async def run() -> T:
        async with open_graph_reader(settings, timeout_s=timeout_s) as graph:
            return await work(graph, settings)

    return asyncio.run(run())


async def entity_named(name: str, graph: GraphReader, tenant: str) -> str:
    """The IRI of the entity of that name; OrionError that names the nearest when there is none."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise GraphQueryError(f"{name!r} is no name: it holds half of a surrogate pair") from error
    found = (await TenantGraph(graph, tenant).named([name]))[name]
    if found:
        return found[0]
    near = await similar_in_graph(graph, name, tenant, 5)
    labels = await TenantGraph(graph, tenant).labels(near)
    hint = f"; similar names: {', '.join(labels[iri] for iri in near)}" if near else ""
    raise OrionError(f"the graph of {tenant!r} has no entity named {name!r}{hint}")
