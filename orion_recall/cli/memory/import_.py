"""`orion-recall import`: stores the memories of a file over the bus."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from orion_recall.cli.connect.addresses import DataFolder, bus_of, find_started, open_postgres
from orion_recall.cli.output import JsonFlag, bars, counted, duration, note, show
from orion_recall.client import RecallClient
from orion_recall.errors import ImportFileError, RecordError
from orion_recall.memory.record.record import CopyPosition, Record
from orion_recall.memory.transfer.importer import (
    ImportMapping,
    ImportSummary,
    Waited,
    import_file,
    read_mapping,
    wait_for_copies,
)
from orion_recall.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_SHOWN_PROBLEMS = 20
_COPIES_BEHIND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """`copies` is caught_up, behind, unknown (no Postgres to ask) or not_waited_for."""

    summary: ImportSummary
    copies: str
    waited: Waited | None = None


@app.command("import")
def import_memories(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, a JSON array or CSV; -: standard input, all of it.")
    ],
    timezone: Annotated[str | None, typer.Option(help="Zone of times that have none: UTC, Europe/Oslo.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of lines that name none.")] = None,
    mapped: Annotated[
        str | None, typer.Option("--map", help="Other names of fields: id=key,text=body.said")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until index and graph have it.")] = True,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Store the memories of a file, over the bus.

    JSON lines, a JSON array of objects, or CSV with a header line. Each object or row is one memory: id and text,
    and whatever is known of kind, speaker, session_id, occurred_at, tags, entities, title, uri; other fields go
    into metadata. CSV and arrays may also have other names: key, content, body, author, conversation_id, user,
    date, timestamp, labels. In a CSV cell, commas or semicolons separate the values of a list.

    Running it again, also after it was stopped, stores what is not there yet. Exit code 1 when a line was
    rejected or its id holds other content; else 3 when all is stored but the index or the graph makes no
    progress: nothing is lost, and nothing needs to be imported again.

    Example: `orion-recall import chat.csv --map id=msg_id,text=body,speaker=author.name --timezone UTC`
    """
    settings = find_started(data)
    mapping = read_mapping(mapped, timezone=timezone, tenant=tenant)
    with lines_of(file) as path:
        try:
            outcome = asyncio.run(_import(settings, path, mapping, wait=wait, called=_called(file)))
        except KeyboardInterrupt:
            note("what was acknowledged is stored: run it again, and the rest is stored, too")
            raise
    summary = outcome.summary
    show(_as_json(outcome), summary.describe(), as_json=as_json, remarks=_on_memories(outcome))
    for remark in _on_copies(outcome):
        note(remark)
    if summary.rejected or summary.conflict:
        return 1
    return _COPIES_BEHIND if outcome.copies == "behind" else 0


@contextlib.contextmanager
def lines_of(file: Path) -> Generator[Path]:
    """The file; for - a copy of standard input: its format is seen at its beginning."""
    if str(file) != "-":
        yield file
        return
    if sys.stdin.isatty():
        raise ImportFileError("standard input is a terminal: pipe lines into it, or name a file")
    with tempfile.TemporaryDirectory(prefix="orion-import-") as folder:
        path = Path(folder) / "standard-input"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


def _called(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)


async def _import(settings: Settings, path: Path, mapping: ImportMapping, *, wait: bool, called: str) -> _Outcome:
    with bars() as shown:
        reading = shown.add_task("storing", total=None)

        def stored(summary: ImportSummary) -> None:
            shown.update(reading, description=f"storing ({counted(summary.read, summary.unit)})")

        async with RecallClient.connect(
            bus_of(settings), prefix=settings.prefix, service="orion-recall-import"
        ) as client:
            summary = await import_file(client, path, mapping, advanced=stored, called=called)
        if not wait:
            return _Outcome(summary=summary, copies="not_waited_for")
        if summary.position is None:
            return _Outcome(summary=summary, copies="caught_up")
        if settings.dsn is None:
            return _Outcome(summary=summary, copies="unknown")
        return await _caught_up(settings, summary, shown, summary.position)


async def _caught_up(settings: Settings, summary: ImportSummary, shown: Progress, position: int) -> _Outcome:
    catching_up = shown.add_task("index and graph", total=position)

    def moved(copies: Sequence[CopyPosition]) -> None:
        shown.update(catching_up, completed=min([position, *(copy.position for copy in copies)]))

    try:
        async with open_postgres(settings) as pool:
            waited = await wait_for_copies(Record(pool), position, advanced=moved)
    except RecordError as error:
        note(f"everything is stored; whether index and graph have it cannot be seen: {error}")
        return _Outcome(summary=summary, copies="unknown")
    return _Outcome(summary=summary, copies="caught_up" if waited.caught_up else "behind", waited=waited)


def _as_json(outcome: _Outcome) -> dict[str, object]:
    summary, waited = outcome.summary, outcome.waited
    counts = ("file", "read", "stored", "unchanged", "conflict", "rejected")
    return {
        **{name: getattr(summary, name) for name in counts},
        "problems": [{"file": one.file, "line": one.line, "reason": one.reason} for one in summary.problems],
        "position": summary.position,
        "copies": outcome.copies,
        "behind": [_as_found(copy, waited.position) for copy in waited.lagging] if waited else [],
        "gone": [_as_found(copy, waited.position) for copy in waited.gone] if waited else [],
        "missing": list(waited.missing) if waited else [],
        "advice": list(_on_copies(outcome)),
    }


def _as_found(copy: CopyPosition, position: int) -> dict[str, object]:
    return {
        "copy": copy.copy,
        "kind": copy.kind,
        "position": copy.position,
        "behind": position - copy.position,
        "silent_s": round(copy.silent_s, 1),
    }


def _on_copies(outcome: _Outcome) -> Iterator[str]:
    """What is to be said of copies that do not have it, and what to do."""
    if (waited := outcome.waited) is None:
        return
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


def _on_memories(outcome: _Outcome) -> Iterator[str]:
    """What is to be said of lines that were not stored."""
    summary = outcome.summary
    shown = summary.problems[:_SHOWN_PROBLEMS]
    yield from map(str, shown)
    if (more := summary.rejected + summary.conflict - len(shown)) > 0:
        yield f"… and {more} more (--json gives a hundred)"
    if outcome.copies == "unknown":
        yield "index and graph follow (set ORION_POSTGRES_DSN to wait for them)"
