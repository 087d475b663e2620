"""`orion-recall graph sparql`: a read-only SPARQL query over one tenant's graph."""

from __future__ import annotations

import csv
import sys
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder
from orion_recall.cli.graph.reading import TenantOption, TimeOut, with_graph
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, prose, table, visible
from orion_recall.graph.stores.reader import GraphReader, SparqlAnswer, reading_form
from orion_recall.graph.vocabulary import tenant_graph
from orion_recall.settings import Settings


def run_sparql(
    query: Annotated[str, typer.Argument(metavar="SPARQL", help="SELECT, ASK, CONSTRUCT or DESCRIBE.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Over the whole store: a named graph for each tenant.")
    ] = False,
    tenant: TenantOption = None,
    timeout: TimeOut = 10.0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a read-only SPARQL query over one tenant's graph; SERVICE and updates are refused.

    The tenant's graph is the default graph, and the only named one. CONSTRUCT and DESCRIBE give N-Triples.

    Example: `orion-recall graph sparql "SELECT ?text WHERE { ?edge <urn:orion:vocabulary:text> ?text }" --limit 5`
    """
    if as_csv and as_json:
        raise typer.BadParameter("give either --csv or --json")
    if all_tenants and tenant is not None:
        raise typer.BadParameter("give either --tenant or --all-tenants")
    form = reading_form(query, confined=not all_tenants)

    async def run(graph: GraphReader, settings: Settings) -> SparqlAnswer:
        only = None if all_tenants else tenant_graph(tenant or settings.default_tenant)
        return await graph.answer(query, form, graph=only, limit=limit)

    found = with_graph(data, timeout, run)
    if as_json:
        value = {"columns": found.columns, "rows": found.rows, "truncated": found.truncated}
        print_json({"boolean": found.truth} if form == "ASK" else value)
    elif form == "ASK":
        print(visible(found.truth))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows(found.rows)
    elif form in ("CONSTRUCT", "DESCRIBE"):
        for row in found.rows:
            prose(visible(" ".join(part or "" for part in row) + " ."))
    else:
        console().print(table(found.columns, found.rows))
    if found.truncated:
        note(f"limited to {counted(limit, 'row')}: --limit shows more")
