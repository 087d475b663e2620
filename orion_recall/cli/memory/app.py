"""`orion-recall memory`: the group of commands."""

from __future__ import annotations

from orion_recall.cli.memory import copies, forget, record, transfer, write
from orion_recall.cli.output import group

app = group("""Store, list, change and delete memories, check their copies, back the record up.

    Example: `orion-recall memory remember "The crane is repaired." --speaker Ana`
    """)
for _name, _command in {
    "list": record.list_memories, "show": record.show_memory, "remember": write.remember,
    "store": write.store_memory, "update": write.update_memory, "updateq": write.update_matching,
    "delete": write.delete_memories, "deleteq": write.delete_matching, "forget": forget.forget_memories,
    "history": record.show_history, "succeeds": record.set_succession, "extract": record.extract_memories,
    "merge": record.merge_names, "check": copies.check_copies, "rebuild": copies.rebuild_copies,
    "export": transfer.export_memories, "backup": transfer.back_up_record, "restore": transfer.restore_record,
}.items():  # fmt: skip
    app.command(_name)(_command)
