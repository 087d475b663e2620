"""`orion-recall graph`: every subcommand is a module of its own."""

from __future__ import annotations

import typer

from orion_recall.cli.graph_exchange import export_graph, import_graph, show_stats

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look into the graph, and take it to other programs.

    Example: `orion-recall graph stats`
    """,
)
app.command("stats")(show_stats)
app.command("export")(export_graph)
app.command("import")(import_graph)
