"""`orion-recall memory export`: writes memories as JSON lines, which `import` reads."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.atomic_file import whole_file
from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, counted, note, print_json
from orion_recall.memory.record.reader import ExportFilters, RecordReader
from orion_recall.memory.transfer.export import exported_lines
from orion_recall.settings import Settings


def export_memories(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The file to write; - is standard output.")],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only of this kind; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only dated from then on: {MOMENT_HELP}")] = None,
    with_history: Annotated[bool, typer.Option("--with-history", help="Add the history of each memory.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Write memories as JSON lines, which `import` reads.

    Deleted and superseded memories are left out. The file appears when it is complete. With --with-history a line
    has its steps in `history`; an import puts them into the metadata, like every field that it does not know.

    Example: `orion-recall memory export - --tenant acme --kind procedure | wc -l`
    """
    settings = find(data)
    filters = ExportFilters(
        tenant=tenant, session_id=session, kinds=tuple(kind or ()), since=moment("--since", since)
    )
    count = asyncio.run(_export(settings, file, filters, with_history=with_history))
    if as_json and file != "-":
        print_json({"file": file, "memories": count})
    else:
        note(counted(count, "memory"))


async def _export(settings: Settings, file: str, filters: ExportFilters, *, with_history: bool) -> int:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        reader = RecordReader(await stack.enter_async_context(open_postgres(settings)))
        told = stack.enter_context(progress("exporting"))
        total, done = await reader.count_exported(filters), 0
        write = stack.enter_context(_output(file))
        async for lines in exported_lines(reader, filters, with_history=with_history):
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
