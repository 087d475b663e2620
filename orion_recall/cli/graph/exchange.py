"""`orion-recall graph export`, `import` and `stats`: the graph as files, and its size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rdflib import URIRef
from rdflib.namespace import SKOS
from rich.progress import Progress, TextColumn
from rich.text import Text

from orion_recall.atomic_file import whole_file, whole_text
from orion_recall.cli.connect.addresses import DataFolder, find
from orion_recall.cli.output import JsonFlag, console, counted, notes, print_json, prose, table, visible
from orion_recall.errors import SettingsError, SourceError
from orion_recall.graph.exchange.csv_files import (
    Advanced,
    Format,
    Select,
    count,
    ends,
    look_up_values,
    memory_lines,
    tenant_of,
    tenants,
    write_csv,
    write_rdf,
)
from orion_recall.graph.stores.reader import open_graph_reader
from orion_recall.graph.vocabulary import ORION, tenant_graph
from orion_recall.graph.walks.statements import Components
from orion_recall.text.normal import storable

_HUBS = 10
# For one page of the graph; a long export asks for many.
_PAGE_S = 120.0
T = TypeVar("T")

Tenant = Annotated[str | None, typer.Option(metavar="NAME", help="This tenant's graph alone.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    tenant: str
    memories: int
    entities: int
    edges: int
    components: list[int]
    hubs: list[tuple[str, int]]


def show_stats(tenant: Tenant = None, data: DataFolder = None, as_json: JsonFlag = False) -> None:
    """Show the size of the graph: memories, entities, edges, connected components, entities with most edges.

    Example: `orion-recall graph stats --tenant default`
    """
    settings = find(data)

    async def shapes() -> list[_Shape]:
        async with open_graph_reader(settings, timeout_s=_PAGE_S) as graph:
            return [await _shape(graph.select, name) for name in await _graphs(graph.select, tenant)]

    found = asyncio.run(shapes())
    if as_json:
        print_json({"tenants": [_as_json(one) for one in found]})
        return
    columns = ("tenant", "memories", "entities", "edges", "components", "largest")
    rows = [
        (one.tenant, one.memories, one.entities, one.edges, len(one.components), max(one.components, default=0))
        for one in found
    ]
    console().print(table(columns, rows))
    for one in found:
        named = ", ".join(f"{label} ({edges})" for label, edges in one.hubs)
        if named:
            prose(visible(f"most edges in {one.tenant}: {named}"))


def export_graph(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file; for csv a folder.")],
    form: Annotated[Format, typer.Option("--format", help="csv: nodes.csv and edges.csv.")] = "turtle",
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the graph as Turtle, N-Quads or JSON-LD, or as nodes.csv and edges.csv.

    Turtle holds one tenant, the other formats all of them. A running worker is not disturbed.

    Example: `orion-recall graph export --format csv --out graph/`
    """
    settings = find(data)
    if out.exists() and not (form == "csv" and out.is_dir()):
        raise SettingsError(f"{out} already exists: name a new {'folder' if form == 'csv' else 'file'}")

    async def write(advanced: Advanced) -> list[URIRef]:
        async with open_graph_reader(settings, timeout_s=_PAGE_S) as graph:
            names = await _graphs(graph.select, tenant)
            if form == "csv":
                await asyncio.to_thread(out.mkdir, parents=True, exist_ok=True)
                await write_csv(graph.select, names, out, advanced)
                return names
            if form == "turtle" and len(names) > 1:
                known = ", ".join(map(tenant_of, names))
                raise SettingsError(f"--tenant: Turtle holds one graph, and there are {len(names)}: {known}")
            with whole_file(out) as file:
                await write_rdf(graph.select, names, form, file, advanced)
            return names

    written, names = asyncio.run(_counted("writing", write))
    if as_json:
        print_json(
            {"out": str(out), "format": form, "nodes": written, "tenants": [tenant_of(name) for name in names]}
        )
    else:
        console().print(
            Text(visible(f"{out}: {counted(written, 'node')} of {counted(len(names), 'tenant')}")), soft_wrap=True
        )


def import_graph(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="edges.csv or its folder, .ttl, .nq or .jsonld.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl", help="A new file for the memories.")],
    as_json: JsonFlag = False,
) -> None:
    """Turn an exported graph into memories for `orion-recall import`.

    The graph is built from the record, so statements have to go there: memories in the file become memories again,
    and an edge without one becomes a memory that states it, with the file as its source.

    Example: `orion-recall graph import graph/edges.csv --out said.jsonl && orion-recall import said.jsonl`
    """
    if out.exists():
        raise SettingsError(f"{out} already exists: name a new file")

    async def write(advanced: Advanced) -> None:
        with whole_text(out) as lines:
            async for line in memory_lines(file):
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                advanced(1)

    written, _ = asyncio.run(_counted("reading", write))
    if as_json:
        print_json({"out": str(out), "memories": written})
    else:
        line = f"{out}: {counted(written, 'memory')}; store them in another record with `orion-recall import {out}`"
        prose(visible(line))


async def _graphs(select: Select, tenant: str | None) -> list[URIRef]:
    held = await tenants(select)
    if tenant is None:
        if not held:
            raise SourceError("the graph holds no memories yet")
        return held
    if storable(tenant) != tenant or tenant_graph(tenant) not in held:
        raise SourceError(f"the graph holds no memories of a tenant {tenant!r}")
    return [tenant_graph(tenant)]


async def _shape(select: Select, graph: URIRef) -> _Shape:
    found = Components()
    async for page in ends(select, graph):
        found.add(page)
    hubs = found.hubs(_HUBS)
    labels = await look_up_values(select, graph, [iri for iri, _ in hubs], SKOS.prefLabel)
    return _Shape(
        tenant=tenant_of(graph),
        memories=await count(select, graph, URIRef(ORION.Memory)),
        entities=await count(select, graph, SKOS.Concept),
        edges=found.edges,
        components=found.sizes(),
        hubs=[(labels.get(iri, iri), edges) for iri, edges in hubs],
    )


def _as_json(shape: _Shape) -> dict[str, Any]:
    return {
        "tenant": shape.tenant,
        "memories": shape.memories,
        "entities": shape.entities,
        "edges": shape.edges,
        "components": len(shape.components),
        "largest": shape.components[:_HUBS],
        "hubs": [{"entity": label, "edges": edges} for label, edges in shape.hubs],
    }


async def _counted(what: str, work: Callable[[Advanced], Awaitable[T]]) -> tuple[int, T]:
    """Runs the work with a counter on a terminal; the count and the result."""
    shown = notes()
    done = 0
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,}"))
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bars:
        counting = bars.add_task(what, total=None)

        def advanced(more: int) -> None:
            nonlocal done
            done += more
            bars.update(counting, completed=done)

        result = await work(advanced)
    return done, result
