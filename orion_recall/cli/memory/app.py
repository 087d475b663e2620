"""`orion-recall memory`: the group of commands."""

from __future__ import annotations

import typer

from orion_recall.cli.memory import browse, copies, forget, names, transfer, write

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Store, list, change and delete memories, check their copies, back the record up.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana`
    """,
)
for _name, _command in {
    "list": browse.list_memories,
    "show": browse.show_memory,
    "remember": write.remember,
    "store": write.store_memory,
    "update": write.update_memory,
    "updateq": write.update_matching,
    "delete": write.delete_memories,
    "deleteq": write.delete_matching,
    "forget": forget.forget_memories,
    "history": browse.show_history,
    "succeeds": browse.set_succession,
    "extract": names.extract_memories,
    "merge": names.merge_names,
    "check": copies.check_copies,
    "rebuild": copies.rebuild_copies,
    "export": transfer.export_memories,
    "backup": transfer.back_up_record,
    "restore": transfer.restore_record,
}.items():
    app.command(_name)(_command)
