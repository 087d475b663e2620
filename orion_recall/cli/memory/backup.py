"""`orion-recall memory backup` writes the whole record to a file, `memory restore` reads it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find
from orion_recall.cli.connect.own_copies import KINDS
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, notes, print_json, prose, visible
from orion_recall.memory.transfer.backup import Manifest, back_up, restore
from orion_recall.settings import Settings


def back_up_record(
    target: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A new file.")],
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
        print_json(_summary(manifest) | {"target": str(target)})
        return
    prose(visible(f"{target}: {_rows(manifest)}"))


def restore_record(
    source: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A backup made by `memory backup`.")],
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Restore a backup into a record that is empty.

    The record is in the data folder, whose Postgres is created and started for this, or in ORION_POSTGRES_DSN, with
    a login that may create tables. The files are checked first; everything is written in one transaction. Index and
    graph are built by the first worker that starts, or by `memory rebuild`. The restored record has a database
    identity of its own: copies of the original are refused, since they may hold newer memories.

    Example: `orion-recall memory restore /backups/orion-2026-11-22.zip --data new`
    """
    settings = find(data)
    manifest = asyncio.run(_restore(settings, source))
    if as_json:
        print_json(_summary(manifest) | {"source": str(source)})
    else:
        prose(visible(f"restored: {_rows(manifest)}"))
    for folder in (settings.data_dir / kind for kind in KINDS):
        if folder.exists():
            remark = f"{folder} belongs to another record: delete it, and a worker builds it from this one"
            prose(visible(remark), to=notes())


def _summary(manifest: Manifest) -> dict[str, object]:
    """What a backup holds, as JSON."""
    return {
        "made_at": manifest.made_at,
        "record": manifest.record,
        "position": manifest.position,
        "tables": {table.name: table.rows for table in manifest.tables},
    }


def _rows(manifest: Manifest) -> str:
    """What a backup holds, in words."""
    return ", ".join(f"{table.rows} {table.name}" for table in manifest.tables)


async def _back_up(settings: Settings, target: Path, *, with_decisions: bool) -> Manifest:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        told = stack.enter_context(progress("backing up"))
        return await back_up(dsn_of(settings), target, with_decisions=with_decisions, progress=told)


async def _restore(settings: Settings, source: Path) -> Manifest:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack, new=True)
        told = stack.enter_context(progress("restoring"))
        return await restore(dsn_of(settings), source, progress=told)
