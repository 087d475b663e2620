"""`orion-recall memory list`, `show` and `history`: read the record directly, without a worker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, with_pool
from orion_recall.cli.fields import with_fields, with_times
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.memory.options import Tenant
from orion_recall.cli.memory.successions import as_json_of, moment_of, row_of, shortened
from orion_recall.cli.moments import Zone
from orion_recall.cli.output import JsonFlag, NotFound, counted, limited, listed, pairs, show, table, visible
from orion_recall.contracts import MemoryWhereV1, read_message
from orion_recall.memory.record.changes import HistoryStep, history
from orion_recall.memory.record.reader import ListedMemory, MemoryDetails, RecordBrowser
from orion_recall.memory.record.successions import HeldSuccession, Successions
from orion_recall.postgres.pool import Pool
from orion_recall.values import Memory

_TEXT_CHARS = 160
# Of a history: what follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(
    ("seq", "version", "updated_at", "recorded_at", "text_hash", "simhash", "content_hash", "statements")
)


@with_fields(
    "fields", MemoryWhereV1, "since", "until", session_id="--session", user_id="--user", agent_id="--agent",
    run_id="--run", kinds="--kind", tags="--tag",
)  # fmt: skip
def list_memories(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]", help='Words, all of them; "a phrase", or, -word.')
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Memories at most.")] = 20,
    fields: Any = None,
    timezone: Zone = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List memories, newest first; with WORDS those that have them, best match first.

    By the time when they happened, else were mentioned; undated ones by the time when they were stored, and never
    with --since or --until. Deleted and superseded memories are left out. WORDS are looked up in title, speaker and
    text, by a text search in Postgres that knows English forms; `ask` answers a question instead. No worker is
    needed.

    Example: `orion-recall memory list --since yesterday --tag harbour crane`
    """
    settings = find(data)
    where = read_message(MemoryWhereV1, with_times(fields, timezone=timezone), "") if fields else None
    query = words[0] if words and len(words) == 1 else " ".join(map(_quoted, words or ()))

    async def read(pool: Pool, whose: str) -> list[ListedMemory]:
        browser = RecordBrowser(pool)
        return await (
            browser.search(whose, query, where, limit + 1) if words else browser.newest(whose, where, limit + 1)
        )

    found = with_pool(settings, tenant, read)
    shown = found[:limit]
    given = [{name: value for name, value in asdict(one).items() if value is not None} for one in shown]
    listed(
        {"memories": given, "truncated": len(found) > limit},
        ("at (UTC)", "id", "what it says"),
        [(f"{one.at:%Y-%m-%d %H:%M}{'' if one.is_dated else '*'}", one.id, _says(one)) for one in shown],
        as_json=as_json,
        nothing="there is no such memory",
        remarks=(
            None if all(one.is_dated for one in shown) else "* undated: stored at this time",
            limited(len(found), limit, "memory"),
        ),
    )


def show_memory(
    memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None, as_json: JsonFlag = False
) -> None:
    """Show everything about one memory: what it says, what was extracted, its state, and how often it was of use.

    Deleted and superseded memories are shown, too. What it said before: `memory history`.

    Example: `orion-recall memory show m-1`
    """

    async def read(pool: Pool, whose: str) -> MemoryDetails:
        details = await RecordBrowser(pool).details(whose, await full_memory_id(pool, whose, memory_id))
        if details is None:
            raise NotFound(no_such_memory(whose, memory_id))
        return details

    details = with_pool(find(data), tenant, read)
    show(_as_json(details), pairs(_fields(details)), as_json=as_json)


def show_history(
    memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None, as_json: JsonFlag = False
) -> None:
    """Show every change of a memory: added, updated, merged, superseded, deleted, by whom and when.

    A row shows what changed; --json has the whole memory before and after each change. A second table shows the
    memories that it succeeds and those that succeed it, who stated it and why.

    Example: `orion-recall memory history m-1`
    """

    async def read(pool: Pool, whose: str) -> tuple[str, list[HistoryStep], list[HeldSuccession]]:
        name = await full_memory_id(pool, whose, memory_id)
        steps = await history(pool, whose, name)
        if not steps:
            raise NotFound(no_such_memory(whose, memory_id))
        return name, steps, await Successions(pool).of_memory(whose, name)

    name, steps, successions = with_pool(find(data), tenant, read)
    told = [asdict(step) | {"at": moment_of(step.at)} for step in steps]
    rows = [(moment_of(one.at), one.version, one.op, one.actor, _told(one)) for one in steps]
    links = [row_of(name, one) for one in successions]
    show(
        {"id": name, "steps": told, "successions": [as_json_of(one) for one in successions]},
        table(("at (UTC)", "version", "step", "by", "what it changed"), rows),
        *([table(("", "memory", "its text", "state", "stated by", "why"), links)] if links else []),
        as_json=as_json,
    )


def _told(step: HistoryStep) -> str:
    """What it changed, a line each, and what else belongs to it."""
    told = [f"{name}: {visible(value)}" for name, value in step.lineage.items()]
    before, after = step.before, step.after or {}
    if before is None:
        return "\n".join([*([visible(after["text"])] if after.get("text") else []), *told])
    if "erased" in before:
        return "\n".join([*told, "(erased)"])
    names = [name for name in after if name not in _NOT_SHOWN and before.get(name) != after[name]]
    return "\n".join(
        [*told, *(f"{name}: {shortened(before.get(name))} -> {shortened(after[name])}" for name in names)]
    )


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


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
        values[name] = moment_of(getattr(details.memory, name))
    values["times"] = [
        {"text": one.text, "since": moment_of(one.since), "until": moment_of(one.until)}
        for one in details.memory.times
    ]
    values["live"] = details.memory.is_live
    return values


def _fields(details: MemoryDetails) -> list[tuple[str, object]]:
    """What is known, in the order in which one asks; what is not known is left out."""
    memory = details.memory
    rows: list[tuple[str, object]] = [("id", memory.id), ("tenant", memory.tenant), ("state", _state(details))]
    rows += [("title", memory.title), ("text", memory.text), ("kind", _kind(memory)), ("speaker", memory.speaker)]
    rows += [
        (name.replace("_", " "), moment_of(getattr(memory, name))) for name in ("occurred_at", "occurred_until")
    ]
    rows.append(("mentioned at", moment_of(memory.mentioned_at)))
    rows += [(f"{name} id", getattr(memory, f"{name}_id")) for name in ("session", "user", "agent", "node", "run")]
    rows += [("tags", ", ".join(memory.tags)), ("source", memory.source), ("uri", memory.uri)]
    rows += [("confidence", memory.confidence)]
    rows += [(f"metadata.{name}", visible(value)) for name, value in memory.metadata.items()]
    rows += [("names", ", ".join(memory.entities))]
    rows += [("statement", f"{edge.subject} - {edge.relation} - {edge.object}") for edge in memory.statements]
    rows += [("time", f"{one.text}: {moment_of(one.since)} to {moment_of(one.until)}") for one in memory.times]
    note = f" ({memory.extraction_note})" if memory.extraction_note else ""
    due = f", due again by {details.extraction_due}" if details.extraction_due else ""
    rows += [("extracted by", f"{memory.extracted_by}{note}{due}"), ("stored at", details.recorded_at)]
    rows += [("updated at", details.updated_at), ("version", f"{memory.version}, {counted(details.steps, 'step')}")]
    rows += [("supersedes", ", ".join(details.replaced)), ("in answers", _uses(details))]
    return [(name, value) for name, value in rows if value not in (None, "")]


def _state(details: MemoryDetails) -> str:
    memory = details.memory
    if memory.deleted_at is not None:
        return f"deleted at {moment_of(memory.deleted_at):%Y-%m-%d %H:%M:%S} UTC"
    return "live" if memory.superseded_by is None else f"superseded by {memory.superseded_by}"


def _kind(memory: Memory) -> str:
    if memory.kind_confidence is None:
        return memory.kind
    return f"{memory.guessed_kind or memory.kind} (read from the text, {memory.kind_confidence:g} sure)"


def _uses(details: MemoryDetails) -> str:
    last = f", last at {details.accessed_at:%Y-%m-%d %H:%M:%S} UTC" if details.accessed_at else ""
    told = f"; feedback: {details.used} used, {details.wrong} wrong" if details.used or details.wrong else ""
    return f"{counted(details.accesses, 'time')}{last}{told}"
