"""`orion-recall memory`: what is remembered, and its copies. Each command has a file of its own."""

from __future__ import annotations

import typer

from orion_recall.cli.memory_backup import back_up_record
from orion_recall.cli.memory_check import check_copies
from orion_recall.cli.memory_delete import delete_memories
from orion_recall.cli.memory_deleteq import delete_matching
from orion_recall.cli.memory_export import export_memories
from orion_recall.cli.memory_extract import extract_memories, show_extracted
from orion_recall.cli.memory_history import show_history
from orion_recall.cli.memory_merge import merge_names
from orion_recall.cli.memory_rebuild import rebuild_copies
from orion_recall.cli.memory_reembed import reembed_memories
from orion_recall.cli.memory_remember import remember
from orion_recall.cli.memory_restore import restore_record
from orion_recall.cli.memory_store import store_memory
from orion_recall.cli.memory_update import update_memory
from orion_recall.cli.memory_updateq import update_matching

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Store, change and delete memories, keep their copies true, back the record up.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana`
    """,
)

app.command("remember")(remember)
app.command("store")(store_memory)
app.command("update")(update_memory)
app.command("updateq")(update_matching)
app.command("delete")(delete_memories)
app.command("deleteq")(delete_matching)
app.command("history")(show_history)
app.command("extract")(extract_memories)
app.command("extracted")(show_extracted)
app.command("merge")(merge_names)
app.command("check")(check_copies)
app.command("rebuild")(rebuild_copies)
app.command("reembed")(reembed_memories)
app.command("export")(export_memories)
app.command("backup")(back_up_record)
app.command("restore")(restore_record)
