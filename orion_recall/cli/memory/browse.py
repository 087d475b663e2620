"""`orion-recall memory list`, `show` and `search`: read the record directly, without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.memory.options import Tenant
from orion_recall.cli.moments import MOMENT_HELP, Zone, moment
from orion_recall.cli.output import JsonFlag, console, counted, note, pairs, print_error, print_json, table, visible
from orion_recall.contracts import MemoryWhereV1, read_message
from orion_recall.memory.record.reader import ListedMemory, MemoryDetails, RecordBrowser
from orion_recall.values import Memory

Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Memories at most.")]
Since = Annotated[str | None, typer.Option(help=f"Only dated from then on: {MOMENT_HELP}")]
Until = Annotated[str | None, typer.Option(help=f"Only dated before; a day or period as a whole: {MOMENT_HELP}")]
User = Annotated[str | None, typer.Option(help="Only of this user.")]
Session = Annotated[str | None, typer.Option(help="Only of this session.")]
Agent = Annotated[str | None, typer.Option(help="Only of this agent (agent_id).")]
Run = Annotated[str | None, typer.Option(help="Only of this run (run_id).")]
Kind = Annotated[list[str] | None, typer.Option(help="Only of this kind, such as plan; again for more.")]
Tag = Annotated[list[str] | None, typer.Option(help="Only with this tag; again for more, one is enough.")]

_TEXT_CHARS = 160


def list_memories(
    limit: Limit = 20,
    since: Since = None,
    until: Until = None,
    timezone: Zone = None,
    user: User = None,
    session: Session = None,
    agent: Agent = None,
    run: Run = None,
    kind: Kind = None,
    tag: Tag = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List memories, newest first.

    By the time when they happened, else were mentioned; undated ones by the time when they were stored, and never
    with --since or --until. Deleted and superseded memories are left out. No worker is needed.

    Example: `orion-recall memory list --since yesterday --tag harbour --limit 50`
    """
    ids = {"user_id": user, "session_id": session, "agent_id": agent, "run_id": run}
    where = _where(since, until, timezone, **ids, kinds=kind, tags=tag)
    found = _read(data, tenant, lambda browser, whose: browser.newest(whose, where, limit + 1))
    _show(found, limit, as_json=as_json)


def search_memories(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help='Words, all of them; "a phrase", or, -word.')],
    limit: Limit = 20,
    since: Since = None,
    until: Until = None,
    timezone: Zone = None,
    user: User = None,
    session: Session = None,
    agent: Agent = None,
    run: Run = None,
    kind: Kind = None,
    tag: Tag = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the record for words, best match first.

    This is a text search in Postgres over title, speaker and text: it finds the words themselves and their English
    forms, in every memory, at once after it was stored. `ask` answers a question instead: a worker searches by
    meaning, words, graph and time, ranks what was found, and returns what fits a prompt. No worker is needed here.

    Example: `orion-recall memory search "crane -gearbox" --since "3 weeks ago"`
    """
    ids = {"user_id": user, "session_id": session, "agent_id": agent, "run_id": run}
    where = _where(since, until, timezone, **ids, kinds=kind, tags=tag)
    query = " ".join(f'"{word}"' if " " in word else word for word in words) if len(words) > 1 else words[0]
    found = _read(data, tenant, lambda browser, whose: browser.search(whose, query, where, limit + 1))
    _show(found, limit, as_json=as_json)


def show_memory(
    memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None, as_json: JsonFlag = False
) -> int:
    """Show everything about one memory: what it says, what was extracted, its state, and how often it was of use.

    Deleted and superseded memories are shown, too. What it said before: `memory history`.

    Example: `orion-recall memory show m-1`
    """
    settings = find(data)
    whose = tenant or settings.default_tenant

    async def read() -> MemoryDetails | None:
        async with open_postgres(settings) as pool:
            return await RecordBrowser(pool).details(whose, await full_memory_id(pool, whose, memory_id))

    details = asyncio.run(read())
    if details is None:
        print_error("NotFound", no_such_memory(whose, memory_id), as_json=as_json)
        return 1
    if as_json:
        print_json(_as_json(details))
    else:
        console().print(pairs(_fields(details)))
    return 0


def _where(since: str | None, until: str | None, zone: str | None, **fields: Any) -> MemoryWhereV1 | None:
    """The conditions, None where there are none; InvalidMessage for one that no memory can meet."""
    starts, ends = moment("--since", since, timezone=zone), moment("--until", until, timezone=zone, end=True)
    given = {name: value for name, value in (fields | {"since": starts, "until": ends}).items() if value}
    return read_message(MemoryWhereV1, given, "") if given else None


def _read(
    data: Path | None, tenant: str | None, work: Callable[[RecordBrowser, str], Awaitable[list[ListedMemory]]]
) -> list[ListedMemory]:
    settings = find(data)

    async def run() -> list[ListedMemory]:
        async with open_postgres(settings) as pool:
            return await work(RecordBrowser(pool), tenant or settings.default_tenant)

    return asyncio.run(run())


def _show(found: Sequence[ListedMemory], limit: int, *, as_json: bool) -> None:
    shown = found[:limit]
    if as_json:
        listed = [{name: value for name, value in asdict(one).items() if value is not None} for one in shown]
        print_json({"memories": listed, "truncated": len(found) > limit})
        return
    if shown:
        rows = [(f"{one.at:%Y-%m-%d %H:%M}{'' if one.is_dated else '*'}", one.id, _says(one)) for one in shown]
        console().print(table(("at (UTC)", "id", "what it says"), rows))
    else:
        note("there is no such memory")
    if any(not one.is_dated for one in shown):
        note("* undated: stored at this time")
    if len(found) > limit:
        note(f"limited to {counted(limit, 'memory')}: --limit shows more")


def _says(one: ListedMemory) -> str:
    said = " ".join((one.passage or one.text).split())
    said = said if len(said) <= _TEXT_CHARS else f"{said[: _TEXT_CHARS - 1].rsplit(' ', 1)[0]} …"
    tags = f" [{', '.join(one.tags)}]" if one.tags else ""
    return (f"{one.speaker}: {said}" if one.speaker else said) + tags


def _as_json(details: MemoryDetails) -> dict[str, object]:
    """The memory's fields and what is known about it, in one object; times as ISO 8601."""
    values: dict[str, object] = asdict(details.memory) | asdict(details)
    for name in ("memory", "supersedes", "lacks_context", "text_hash", "content_hash"):
        del values[name]
    for name in ("occurred_at", "occurred_until", "mentioned_at", "deleted_at"):
        values[name] = _time(getattr(details.memory, name))
    values["times"] = [
        {"text": one.text, "since": _time(one.since), "until": _time(one.until)} for one in details.memory.times
    ]
    values["live"] = details.memory.is_live
    return values


def _fields(details: MemoryDetails) -> list[tuple[str, object]]:
    """What is known, in the order in which one asks; what is not known is left out."""
    memory = details.memory
    rows: list[tuple[str, object]] = [("id", memory.id), ("tenant", memory.tenant), ("state", _state(details))]
    rows += [("title", memory.title), ("text", memory.text), ("kind", _kind(memory)), ("speaker", memory.speaker)]
    rows += [(name.replace("_", " "), _time(getattr(memory, name))) for name in ("occurred_at", "occurred_until")]
    rows.append(("mentioned at", _time(memory.mentioned_at)))
    rows += [(f"{name} id", getattr(memory, f"{name}_id")) for name in ("session", "user", "agent", "node", "run")]
    rows += [("tags", ", ".join(memory.tags)), ("source", memory.source), ("uri", memory.uri)]
    rows += [("confidence", memory.confidence)]
    rows += [(f"metadata.{name}", visible(value)) for name, value in memory.metadata.items()]
    rows += [("names", ", ".join(memory.entities))]
    rows += [("statement", f"{edge.subject} - {edge.relation} - {edge.object}") for edge in memory.statements]
    rows += [("time", f"{one.text}: {_time(one.since)} to {_time(one.until)}") for one in memory.times]
    note = f" ({memory.extraction_note})" if memory.extraction_note else ""
    due = f", due again by {details.extraction_due}" if details.extraction_due else ""
    rows += [("extracted by", f"{memory.extracted_by}{note}{due}"), ("stored at", details.recorded_at)]
    rows += [("updated at", details.updated_at), ("version", f"{memory.version}, {counted(details.steps, 'step')}")]
    rows += [("supersedes", ", ".join(details.replaced)), ("in answers", _uses(details))]
    return [(name, value) for name, value in rows if value not in (None, "")]


def _state(details: MemoryDetails) -> str:
    memory = details.memory
    if memory.deleted_at is not None:
        return f"deleted at {_time(memory.deleted_at):%Y-%m-%d %H:%M:%S} UTC"
    return "live" if memory.superseded_by is None else f"superseded by {memory.superseded_by}"


def _kind(memory: Memory) -> str:
    if memory.kind_confidence is None:
        return memory.kind
    return f"{memory.guessed_kind or memory.kind} (read from the text, {memory.kind_confidence:g} sure)"


def _uses(details: MemoryDetails) -> str:
    last = f", last at {details.accessed_at:%Y-%m-%d %H:%M:%S} UTC" if details.accessed_at else ""
    told = f"; feedback: {details.used} used, {details.wrong} wrong" if details.used or details.wrong else ""
    return f"{counted(details.accesses, 'time')}{last}{told}"


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
