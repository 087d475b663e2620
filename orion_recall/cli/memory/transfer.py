"""`orion-recall import`, `memory export`, `backup` and `restore`: memories in files, the whole record."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.atomic_file import whole_file
from orion_recall.cli.addresses import DataFolder, dsn_of, find, find_started, open_client, open_postgres, record_of
from orion_recall.cli.memory.copies import KINDS
from orion_recall.cli.options import with_fields, with_times
from orion_recall.cli.output import Remark, bars, counted, duration, note, progress, show
from orion_recall.contracts import MemoryReceiptV1, MemoryWhereV1
from orion_recall.errors import ImportFileError, RecordError
from orion_recall.memory.record.record import CopyPosition, Record
from orion_recall.memory.transfer.backup import Manifest, back_up, restore
from orion_recall.memory.transfer.importer import ImportSummary, Waited, import_file, read_mapping, wait_for_copies

_SHOWN_PROBLEMS = 20
_COPIES_BEHIND = 3


def import_memories(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A file, or a folder of one export; -: standard input, all of it."),
    ],
    timezone: Annotated[str | None, typer.Option(help="Zone of times that have none: UTC, Europe/Oslo.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of lines that name none.")] = None,
    mapped: Annotated[
        str | None, typer.Option("--map", help="Other names of fields: id=key,text=body.said")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until index and graph have it.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check it all, and store nothing.")] = False,
    data: DataFolder = None,
) -> int:
    """Store the memories of a file, over the bus.

    Exports of ChatGPT and Claude (conversations.json, the ZIP file or its folder), mem0 and Hindsight, messages as
    OpenAI and LangChain write them, and Markdown, a file or a folder, are recognised by what is in them.

    Or give JSON lines, a JSON array of objects, or CSV with a header line. Each object or row is one memory: id and
    text, and whatever is known of kind, speaker, session_id, occurred_at, tags, entities, title, uri; other fields
    go into metadata. CSV and arrays may also have other names: key, content, body, author, conversation_id, user,
    date, timestamp, labels. In a CSV cell, commas or semicolons separate the values of a list.

    Running it again, also after it was stopped, stores what is not there yet. Exit code 1 when a line was
    rejected or its id holds other content; else 3 when all is stored but the index or the graph makes no
    progress: nothing is lost, and nothing needs to be imported again.

    Example: `orion-recall import chat.csv --map id=msg_id,text=body,speaker=author.name --timezone UTC`
    """
    settings = find(data) if dry_run else find_started(data)
    mapping = read_mapping(mapped, timezone=timezone, tenant=tenant, kinds=settings.kinds)

    async def run(path: Path, called: str) -> tuple[ImportSummary, str, Waited | None]:
        # The copies: caught_up, behind, unknown (no Postgres to ask) or not_waited_for.
        with bars() as shown:
            reading = shown.add_task("storing", total=None)

            def stored(summary: ImportSummary) -> None:
                shown.update(reading, description=f"storing ({counted(summary.read, summary.format.noun)})")

            if dry_run:
                summary = await import_file(_not_stored, path, mapping, advanced=stored, called=called)
                return summary, "not_waited_for", None
            async with open_client(settings, service="orion-recall-import") as client:
                store = partial(client.store, wait_s=0)  # it is waited for at the end
                summary = await import_file(store, path, mapping, advanced=stored, called=called)
            if not wait or summary.position is None:
                return summary, "caught_up" if wait else "not_waited_for", None
            if settings.dsn is None:
                return summary, "unknown", None
            position = summary.position
            catching_up = shown.add_task("index and graph", total=position)

            def advanced(copies: Sequence[CopyPosition]) -> None:
                shown.update(catching_up, completed=min([position, *(copy.position for copy in copies)]))

            try:
                async with open_postgres(settings) as pool:
                    waited = await wait_for_copies(Record(pool).copies, position, advanced=advanced)
            except RecordError as error:
                note(f"everything is stored; whether index and graph have it cannot be seen: {error}")
                return summary, "unknown", None
            return summary, "caught_up" if waited.caught_up else "behind", waited

    with lines_of(file) as path:
        called = str(path) if path == file else "standard input"
        try:
            summary, copies, waited = asyncio.run(run(path, called))
        except KeyboardInterrupt:
            note("what was acknowledged is stored: run it again, and the rest is stored, too")
            raise
    advice = list(_on_copies(waited)) if waited is not None else []
    names = ("file", "read", "stored", "unchanged", "conflict", "rejected", "left_out", "position")
    value = {
        **{name: getattr(summary, name) for name in names},
        "format": summary.format.name,
        "problems": [{"file": one.file, "line": one.line, "reason": one.reason} for one in summary.problems],
        "copies": copies,
        "behind": [_as_found(copy, waited.position) for copy in waited.lagging] if waited else [],
        "gone": [_as_found(copy, waited.position) for copy in waited.gone] if waited else [],
        "missing": waited.missing if waited else (),
        "advice": advice,
    }
    remarks = [*map(str, summary.problems[:_SHOWN_PROBLEMS])]
    if (more := summary.rejected + summary.conflict - len(remarks)) > 0:
        remarks.append(f"… and {more} more (--json gives a hundred)")
    if dry_run:
        remarks.append("a dry run: nothing was stored")
    if copies == "unknown":
        remarks.append("index and graph follow (set ORION_POSTGRES_DSN to wait for them)")
    show(value, summary.describe(), remarks=remarks)
    for remark in advice:
        note(remark)
    if summary.rejected or summary.conflict:
        return 1
    return _COPIES_BEHIND if copies == "behind" else 0


async def _not_stored(memories: Sequence[Mapping[str, Any]]) -> MemoryReceiptV1:
    return MemoryReceiptV1(stored=0, unchanged=0, conflict=0, rejected=0, results=[])


@contextlib.contextmanager
def lines_of(file: Path) -> Generator[Path]:
    """The file; for - a copy of standard input: its format is seen at its beginning."""
    if str(file) != "-":
        yield file
        return
    if sys.stdin.isatty():
        raise ImportFileError("standard input is a terminal: pipe lines into it, or name a file")
    with tempfile.TemporaryDirectory(prefix="orion-import-") as folder:
        path = Path(folder) / "standard" / "input"  # its name goes into ids of what has none
        path.parent.mkdir()
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


def _as_found(copy: CopyPosition, position: int) -> dict[str, object]:
    told = {name: getattr(copy, name) for name in ("copy", "kind", "position")}
    return {**told, "behind": position - copy.position, "silent_s": round(copy.silent_s, 1)}


def _on_copies(waited: Waited) -> Iterator[str]:
    """What is to be said of copies that do not have it, and what to do."""
    for copy in waited.lagging:
        yield (
            f"the {copy.kind} of {copy.copy} is {waited.position - copy.position} behind and does not move: at "
            f"{copy.position} of {waited.position}"
        )
    for kind in waited.missing:
        yield f"no worker keeps a copy of the {kind}: it may be broken, or has not been opened yet"
    if not waited.caught_up:
        yield (
            "all is stored in the record and nothing is lost: the copies go on by themselves once their workers "
            "can. `orion-recall status` says what is in the way"
        )
    for copy in waited.gone:
        yield (
            f"the {copy.kind} of {copy.copy} is {waited.position - copy.position} behind and not waited for: no "
            f"sign of it for {duration(copy.silent_s)}. If its worker is gone for good: "
            f"`orion-recall status --forget {shlex.quote(copy.copy)}`"
        )


@with_fields("fields", MemoryWhereV1, "since", session_id="--session", kinds="--kind")
def export_memories(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The file to write; - is standard output.")],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    fields: Any = None,
    data: DataFolder = None,
) -> None:
    """Write memories as JSON lines, which `import` reads.

    Deleted and superseded memories are left out, and so is the history. The file appears when it is complete.

    Example: `orion-recall memory export - --tenant acme --kind procedure | wc -l`
    """
    settings = find(data)
    where = MemoryWhereV1.model_validate(given) if (given := with_times(fields)) else None

    async def export() -> int:
        async with record_of(settings) as (_, pool):
            reader, done = Record(pool), 0
            total = await reader.count(tenant, where)
            with progress("exporting") as told, _output(file) as write:
                async for lines in reader.exported(tenant, where):
                    write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
                    done += len(lines)
                    told(done, max(done, total))
            return done

    count = asyncio.run(export())
    if file == "-":  # where the memories are
        note(counted(count, "memory"))
    else:
        show({"file": file, "memories": count}, Remark(counted(count, "memory")))


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
    target: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A new file.")],
    with_decisions: Annotated[bool, typer.Option("--with-decisions", help="Include the decision log.")] = False,
    data: DataFolder = None,
) -> None:
    """Back up the whole record: memories with versions and history, and what belongs to them.

    The backup is one snapshot; workers are not stopped. Index and graph are not in it: they are built from the
    record. The manifest has the schema and the number of rows of every table. Memories are not encrypted in
    it: keep it in a safe place. `memory restore` reads it.

    Example: `orion-recall memory backup /backups/orion-$(date +%F).zip`
    """
    settings = find(data)

    async def run() -> Manifest:
        async with record_of(settings) as (found, _):
            return await back_up(dsn_of(found), target, with_decisions=with_decisions)

    _show_manifest(asyncio.run(run()), str(target), {"target": target})


def restore_record(
    source: Annotated[Path, typer.Argument(metavar="FILE.zip", help="A backup made by `memory backup`.")],
    data: DataFolder = None,
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
        async with record_of(settings, new=True) as (found, _):
            return await restore(dsn_of(found), source)

    _show_manifest(asyncio.run(run()), "restored", {"source": source})
    for folder in (settings.data_dir / kind for kind in KINDS):
        if folder.exists():
            note(f"{folder} belongs to another record: delete it, and a worker builds it from this one")


def _show_manifest(manifest: Manifest, what: str, more: dict[str, Any]) -> None:
    tables = {table.name: table.rows for table in manifest.tables}
    value = {name: getattr(manifest, name) for name in ("made_at", "record", "position")}
    rows = ", ".join(f"{rows} {name}" for name, rows in tables.items())
    show({**value, "tables": tables, **more}, f"{what}: {rows}")
