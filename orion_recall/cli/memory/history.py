"""`orion-recall memory history` lists the changes and successions of one memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.memory.options import Tenant
from orion_recall.cli.memory.successions import as_json_of, moment_of, row_of, shortened
from orion_recall.cli.output import JsonFlag, console, print_error, print_json, table, visible
from orion_recall.memory.record.changes import HistoryStep, MemoryChanges
from orion_recall.memory.record.successions import HeldSuccession, Successions
from orion_recall.values import JsonValue

# What follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(
    ("seq", "version", "updated_at", "recorded_at", "text_hash", "simhash", "content_hash", "statements")
)


def show_history(
    memory_id: MemoryId,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show every change of a memory: added, updated, merged, superseded, deleted, by whom and when.

    A row shows what changed; --json has the whole memory before and after each change. A second table shows the
    memories that it succeeds and those that succeed it, with who says so and the ids that state it.

    Example: `orion-recall memory history m-1`
    """
    settings = find(data)

    whose = tenant or settings.default_tenant

    async def read() -> tuple[str, list[HistoryStep], list[HeldSuccession]]:
        async with open_postgres(settings) as pool:
            name = await full_memory_id(pool, whose, memory_id)
            steps = await MemoryChanges(pool).history(whose, name)
            return name, steps, await Successions(pool).of_memory(whose, name)

    name, steps, successions = asyncio.run(read())
    if not steps:
        print_error("NotFound", no_such_memory(whose, memory_id), as_json=as_json)
        return 1
    if as_json:
        told = [asdict(step) | {"at": moment_of(step.at)} for step in steps]
        print_json({"id": name, "steps": told, "successions": [as_json_of(one) for one in successions]})
        return 0
    rows = [(moment_of(one.at), one.version, one.op, one.actor, _told(one)) for one in steps]
    console().print(table(("at (UTC)", "version", "step", "by", "what it changed"), rows))
    if successions:
        links = [row_of(name, one) for one in successions]
        console().print(table(("", "memory", "its text", "state", "by", "evidence"), links))
    return 0


def _told(step: HistoryStep) -> str:
    """What it changed, a line each, and what else belongs to it."""
    said = [f"{name}: {visible(value)}" for name, value in step.lineage.items()]
    if step.before is None:
        text = (step.after or {}).get("text")
        return "\n".join([visible(text), *said]) if text else "\n".join(said)
    return "\n".join([*said, *_differences(step.before, step.after or {})])


def _differences(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> list[str]:
    names = [name for name in after if name not in _NOT_SHOWN and before.get(name) != after[name]]
    if "erased" in before:
        return ["(erased)"]
    return [f"{name}: {shortened(before.get(name))} -> {shortened(after[name])}" for name in names]
