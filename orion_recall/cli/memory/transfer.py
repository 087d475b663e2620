"""`orion-recall memory export`, `backup` and `restore`: memories as JSON lines, the record as a folder or file."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.atomic_file import whole_file
from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find, open_postgres, with_record
from orion_recall.cli.connect.own_copies import KINDS
from orion_recall.cli.fields import with_fields, with_times
from orion_recall.cli.output import JsonFlag, counted, note, print_json, progress, show
from orion_recall.contracts import MemoryWhereV1
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.transfer.backup import Manifest, back_up, restore
from orion_recall.settings import Settings


@with_fields("fields", MemoryWhereV1, "since", session_id="--session", kinds="--kind")
def export_memories(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The file to write; - is standard output.")],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    fields: Any = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Write memories as JSON lines, which `import` reads.

    Deleted and superseded memories are left out, and so is the history. The file appears when it is complete.

    Example: `orion-recall memory export - --tenant acme --kind procedure | wc -l`
    """
    settings = find(data)
    where = MemoryWhereV1.model_validate(given) if (given := with_times(fields)) else None
    count = asyncio.run(_export(settings, file, tenant, where))
    if as_json and file != "-":
        print_json({"file": file, "memories": count})
    else:
        note(counted(count, "memory"))


async def _export(settings: Settings, file: str, tenant: str | None, where: MemoryWhereV1 | None) -> int:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        reader = RecordReader(await stack.enter_async_context(open_postgres(settings)))
        told = stack.enter_context(progress("exporting"))
        total, done = await reader.count_exported(tenant, where), 0
        write = stack.enter_context(_output(file))
        async for lines in reader.exported(tenant, where):
            write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            done += len(lines)
            told(done, max(done, total))
        return done


@contextlib.contextmanager
def _output(file: str) -> Generator[Callable[[bytes], object]]:
    """Writes to standard output, or to a file that appears when the block ends without an error."""
    if file == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    with whole_file(Path(file)) as opened:
        yield opened.write


def back_up_record(
    target: Annotated[Path, typer.Argument(metavar="DIR|FILE.zip", help="A new folder, or a new file.")],
    with_decisions: Annotated[bool, typer.Option("--with-decisions", help="Include the decision log.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Back up the whole record: memories with versions and history, and what belongs to them.

    The backup is one snapshot; workers are not stopped. Index and graph are not in it: they are built from the
    record. The manifest has the schema and the number of rows of every table. Memories are not encrypted in
    it: keep it in a safe place. `memory restore` reads it.

    Example: `orion-recall memory backup /backups/orion-$(date +%F).zip`
    """
    settings = find(data)

    async def run() -> Manifest:
        async with contextlib.AsyncExitStack() as stack:
            found = await with_record(settings, stack)
            told = stack.enter_context(progress("backing up"))
            return await back_up(dsn_of(found), target, with_decisions=with_decisions, progress=told)

    manifest = asyncio.run(run())
    show(_summary(manifest) | {"target": str(target)}, f"{target}: {_rows(manifest)}", as_json=as_json)


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

    async def run() -> Manifest:
        async with contextlib.AsyncExitStack() as stack:
            found = await with_record(settings, stack, new=True)
            told = stack.enter_context(progress("restoring"))
            return await restore(dsn_of(found), source, progress=told)

    manifest = asyncio.run(run())
    show(_summary(manifest) | {"source": str(source)}, f"restored: {_rows(manifest)}", as_json=as_json)
    for folder in (settings.data_dir / kind for kind in KINDS):
        if folder.exists():
            note(f"{folder} belongs to another record: delete it, and a worker builds it from this one")


def _summary(manifest: Manifest) -> dict[str, object]:
    """What a backup holds, as JSON."""
    return {
        "made_at": manifest.made_at,
        "record": manifest.record,
        "position": manifest.position,
        "tables": {table.name: table.rows for table in manifest.tables},
    }


def _rows(manifest: Manifest) -> str:
    return ", ".join(f"{table.rows} {table.name}" for table in manifest.tables)
