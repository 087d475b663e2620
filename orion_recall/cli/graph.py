"""`orion-recall graph`: the graph that the memories make, asked and drawn. A subcommand is a file."""

from __future__ import annotations

import typer

from orion_recall.cli.graph_path import show_path
from orion_recall.cli.graph_query import run_query
from orion_recall.cli.graph_sparql import run_sparql
from orion_recall.cli.graph_viz import write_picture

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Ask the graph that the memories make, and draw it.

    It is read beside a running worker, which does not notice, or from the server that ORION_SPARQL_URL names.

    Example: `orion-recall graph path Ana Bergen`
    """,
)
app.command("path")(show_path)
app.command("query")(run_query)
app.command("sparql")(run_sparql)
app.command("viz")(write_picture)
