"""`orion-recall memory`: the group of commands."""

from __future__ import annotations

import typer

from orion_recall.cli.memory.browse import list_memories, set_succession, show_history, show_memory
from orion_recall.cli.memory.copies import check_copies, rebuild_copies
from orion_recall.cli.memory.extract import extract_memories
from orion_recall.cli.memory.forget import forget_memories
from orion_recall.cli.memory.merge import merge_names
from orion_recall.cli.memory.transfer import back_up_record, export_memories, restore_record
from orion_recall.cli.memory.write import (
    delete_matching,
    delete_memories,
    remember,
    store_memory,
    update_matching,
    update_memory,
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Store, list, change and delete memories, check their copies, back the record up.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana`
    """,
)

app.command("list")(list_memories)
app.command("show")(show_memory)
app.command("remember")(remember)
app.command("store")(store_memory)
app.command("update")(update_memory)
app.command("updateq")(update_matching)
app.command("delete")(delete_memories)
app.command("deleteq")(delete_matching)
app.command("forget")(forget_memories)
app.command("history")(show_history)
app.command("succeeds")(set_succession)
app.command("extract")(extract_memories)
app.command("merge")(merge_names)
app.command("check")(check_copies)
app.command("rebuild")(rebuild_copies)
app.command("export")(export_memories)
app.command("backup")(back_up_record)
app.command("restore")(restore_record)
