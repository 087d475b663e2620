"""`orion-recall memory restore`: restores a backup into an empty record."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find
from orion_recall.cli.connect.own_copies import KINDS
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.memory.backup import rows, summary
from orion_recall.cli.output import JsonFlag, notes, print_json, prose, visible
from orion_recall.memory.transfer.backup import restore
from orion_recall.memory.transfer.backup_files import Manifest
from orion_recall.settings import Settings


def restore_record(
    source: Annotated[Path, typer.Argument(metavar="DIR|FILE.zip", help="A backup made by `memory backup`.")],
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
        print_json(summary(manifest) | {"source": str(source)})
    else:
        prose(visible(f"restored: {rows(manifest)}"))
    for folder in (settings.data_dir / kind for kind in KINDS):
        if folder.exists():
            remark = f"{folder} belongs to another record: delete it, and a worker builds it from this one"
            prose(visible(remark), to=notes())


async def _restore(settings: Settings, source: Path) -> Manifest:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack, new=True)
        told = stack.enter_context(progress("restoring"))
        return await restore(dsn_of(settings), source, progress=told)
