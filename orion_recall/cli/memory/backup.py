"""`orion-recall memory backup`: writes the whole record to a folder or a file."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, print_json, prose, visible
from orion_recall.memory.transfer.backup import back_up
from orion_recall.memory.transfer.backup_files import Manifest
from orion_recall.settings import Settings


def back_up_record(
    target: Annotated[Path, typer.Argument(metavar="DIR|FILE.zip", help="A new folder, or a new file.")],
    with_decisions: Annotated[bool, typer.Option("--with-decisions", help="Include the decision log.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Back up the whole record: memories with versions and history, and what belongs to them.

    The backup is one snapshot; workers are not stopped. Index and graph are not in it: they are built from the
    record. The manifest has the schema, the number of rows of every table and their SHA-256. Memories are not
    encrypted in it: keep it in a safe place. `memory restore` reads it.

    Example: `orion-recall memory backup /backups/orion-$(date +%F).zip`
    """
    settings = find(data)
    manifest = asyncio.run(_back_up(settings, target, with_decisions=with_decisions))
    if as_json:
        print_json(summary(manifest) | {"target": str(target)})
        return
    prose(visible(f"{target}: {rows(manifest)}"))


def summary(manifest: Manifest) -> dict[str, object]:
    """What a backup holds, as JSON."""
    return {
        "made_at": manifest.made_at,
        "record": manifest.record,
        "position": manifest.position,
        "tables": {table.name: table.rows for table in manifest.tables},
    }


def rows(manifest: Manifest) -> str:
    """What a backup holds, in words."""
    return ", ".join(f"{table.rows} {table.name}" for table in manifest.tables)


async def _back_up(settings: Settings, target: Path, *, with_decisions: bool) -> Manifest:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        told = stack.enter_context(progress("backing up"))
        return await back_up(dsn_of(settings), target, with_decisions=with_decisions, progress=told)
