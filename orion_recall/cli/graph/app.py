"""`orion-recall graph`: query, draw and export the memory graph."""

from __future__ import annotations

import typer

from orion_recall.cli.graph.files import export_graph, write_picture
from orion_recall.cli.graph.queries import run_query, run_sparql, show_path

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Ask the graph that the memories make, draw it, and take it to other programs.

    It is read from the data folder while a worker runs, or from the server that ORION_SPARQL_URL names.

    Example: `orion-recall graph path Ana Bergen`
    """,
)
app.command("path")(show_path)
app.command("query")(run_query)
app.command("sparql")(run_sparql)
app.command("viz")(write_picture)
app.command("export")(export_graph)
