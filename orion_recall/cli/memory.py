"""`orion-recall memory`: the record and its copies. Each command is in a module of its own."""

from __future__ import annotations

import typer

from orion_recall.cli.memory_backup import back_up_record
from orion_recall.cli.memory_check import check_copies
from orion_recall.cli.memory_export import export_memories
from orion_recall.cli.memory_rebuild import rebuild_copies
from orion_recall.cli.memory_reembed import reembed_memories
from orion_recall.cli.memory_restore import restore_record

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Keep copies true to the record, back it up, bring it back.

    Example: `orion-recall memory check --repair`
    """,
)


@app.callback()
def memory() -> None:
    """Makes this a group of commands, however many there are."""


app.command("backup")(back_up_record)
app.command("check")(check_copies)
app.command("export")(export_memories)
app.command("rebuild")(rebuild_copies)
app.command("reembed")(reembed_memories)
app.command("restore")(restore_record)
