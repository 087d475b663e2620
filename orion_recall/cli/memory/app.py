"""`orion-recall memory`: the group of commands."""

from __future__ import annotations

import typer

from orion_recall.cli.memory.backup import back_up_record, restore_record
from orion_recall.cli.memory.browse import list_memories, search_memories, show_memory
from orion_recall.cli.memory.change import delete_memories, update_memory
from orion_recall.cli.memory.check import check_copies
from orion_recall.cli.memory.export import export_memories
from orion_recall.cli.memory.extract import extract_memories, show_extracted
from orion_recall.cli.memory.forget import forget_memories
from orion_recall.cli.memory.history import show_history
from orion_recall.cli.memory.matching import delete_matching, update_matching
from orion_recall.cli.memory.merge import merge_names
from orion_recall.cli.memory.rebuild import rebuild_copies
from orion_recall.cli.memory.reembed import reembed_memories
from orion_recall.cli.memory.remember import remember
from orion_recall.cli.memory.store import store_memory
from orion_recall.cli.memory.successions import set_succession

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Store, list, change and delete memories, check their copies, back the record up.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana`
    """,
)

app.command("list")(list_memories)
app.command("show")(show_memory)
app.command("search")(search_memories)
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
app.command("extracted")(show_extracted)
app.command("merge")(merge_names)
app.command("check")(check_copies)
app.command("rebuild")(rebuild_copies)
app.command("reembed")(reembed_memories)
app.command("export")(export_memories)
app.command("backup")(back_up_record)
app.command("restore")(restore_record)
