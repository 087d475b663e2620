"""`orion-recall graph path`: paths between two entities, with the memories that are evidence for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder
from orion_recall.cli.graph.reading import TenantOption, TimeOut, entity_named, with_graph
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, NotFound, console, counted, note, print_json, visible
from orion_recall.graph.stores.reader import GraphReader
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.graph.told_windows import shown
from orion_recall.graph.walks.path import Path, PathBounds, Paths, find_path
from orion_recall.settings import Settings
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
    tenant: TenantOption = None,
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
        print_json(asdict(found))
        return 0 if found.paths else 1
    if not found.paths:
        told = _ENDED[found.ended].format(hops=len(words) or max_hops, expansions=bounds.max_expansions)
        raise NotFound(f"{told}: no statement connects {' or '.join(alone)} with anything" if alone else told)
    for path in found.paths:
        _show(path)
    if found.cut:
        note(f"{counted(found.cut, 'entity')} had more than {bounds.edges} edges: only so many were followed")
    return 0


def _period(during: str | None) -> Sequence[TimeRange]:
    start, end = moment("--during", during), moment("--during", during, end=True)
    if start is None or end is None:
        return ()
    return ((start.timestamp(), max(end.timestamp(), start.timestamp() + 1.0)),)


def _show(path: Path) -> None:
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
