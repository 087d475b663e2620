"""`orion-recall memory list`, `show`, `history` and `succeeds`: the record directly, without a worker."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from orion_recall.cli.addresses import Actor, DataFolder, Tenant, find, with_pool
from orion_recall.cli.options import Zone, with_fields, with_times
from orion_recall.cli.output import JsonFlag, NotFound, document, limited, listed, report, show, table, visible
from orion_recall.contracts import MemoryWhereV1, read_message
from orion_recall.errors import OrionError
from orion_recall.memory.record.reader import ListedMemory, MemoryDetails, RecordReader
from orion_recall.memory.record.record import HistoryStep, history
from orion_recall.memory.record.successions import HeldSuccession, Successions
from orion_recall.postgres.pool import Pool
from orion_recall.values import JsonValue

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")]

_TEXT_CHARS, _CELL_CHARS = 160, 120
# Of a history: what follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(
    ("seq", "version", "updated_at", "recorded_at", "text_hash", "simhash", "content_hash", "statements")
)
_INNER = frozenset(("memory", "supersedes", "lacks_context", "text_hash", "content_hash"))
_TIMES = ("occurred_at", "occurred_until", "mentioned_at", "deleted_at")


@with_fields(
    "fields", MemoryWhereV1, "since", "until", session_id="--session", user_id="--user", agent_id="--agent",
    run_id="--run", kinds="--kind", tags="--tag",
)  # fmt: skip
def list_memories(
    words: Annotated[list[str] | None, typer.Argument(help='Words, all of them; "a phrase", or, -word.')] = None,
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
        browser = RecordReader(pool)
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
        if (details := await RecordReader(pool).details(whose, memory_id)) is None:
            raise _no_such_memory(whose, memory_id)
        return details

    report(_details(with_pool(find(data), tenant, read)), as_json=as_json)


def show_history(
    memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None, as_json: JsonFlag = False
) -> None:
    """Show every change of a memory: added, updated, merged, superseded, deleted, by whom and when.

    A row shows what changed; --json has the whole memory before and after each change. A second table shows the
    memories that it succeeds and those that succeed it, who stated it and why.

    Example: `orion-recall memory history m-1`
    """

    async def read(pool: Pool, whose: str) -> tuple[list[HistoryStep], list[HeldSuccession]]:
        steps = await history(pool, whose, memory_id)
        if not steps:
            raise _no_such_memory(whose, memory_id)
        return steps, await Successions(pool).of_memory(whose, memory_id)

    steps, successions = with_pool(find(data), tenant, read)
    links = [asdict(one) | {"at": _moment(one.at), "changed_at": _moment(one.changed_at)} for one in successions]
    rows = [(_moment(one.at), one.version, one.op, one.actor, _changed(one)) for one in steps]
    columns = ("at (UTC)", "version", "step", "by", "what it changed")
    told = [asdict(step) | {"at": _moment(step.at)} for step in steps]
    value = {"id": memory_id, "steps": told, "successions": links}
    show(value, table(columns, rows), *document({"successions": links}), as_json=as_json)


def set_succession(
    newer: Annotated[str, typer.Argument(metavar="NEW", help="The newer memory's id.")],
    older: Annotated[str, typer.Argument(metavar="OLD", help="The older memory's id.")],
    undo: Annotated[bool, typer.Option("--undo", help="It does not: undo the succession.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Say that a memory succeeds an older one.

    Neither memory is changed: recalls get the newer one first, and the older one is marked, left out or kept as the
    profile says (`superseded`). With --undo the two have nothing to do with each other, and no extractor brings it
    back. `orion-recall memory history ID` shows the successions of a memory.

    Example: `orion-recall memory succeeds m-7 m-2`
    """

    done = with_pool(
        find(data),
        tenant,
        lambda pool, whose: Successions(pool).by_person(whose, newer, older, undo=undo, actor=actor),
    )
    if done.state == "missing":
        raise NotFound(
            f"nothing was changed: there is no live memory {' and '.join(map(repr, done.ids))}. The id is unknown, "
            "or the memory was deleted or superseded: `orion-recall memory history ID` says which"
        )
    if done.state == "same":
        raise OrionError(f"nothing was changed: {done.ids[0]!r} cannot succeed itself")
    if done.state == "cycle":
        chain = " succeeds ".join(map(repr, done.ids))
        raise OrionError(
            f"nothing was changed: it would be a cycle, for {chain}. Undo one of these first: "
            f"`orion-recall memory succeeds {done.ids[0]} {done.ids[1]} --undo`"
        )
    told = f"{newer} succeeds {older}: {done.state}; index and graph follow"
    if done.state == "unchanged":
        told = f"nothing was changed: that {newer} succeeds {older} is {'undone' if undo else 'stated'} already"
    show({"newer": newer, "older": older, "state": done.state}, told, as_json=as_json)


def _no_such_memory(tenant: str, memory_id: str) -> NotFound:
    return NotFound(f"no memory of {tenant!r} has the id {memory_id!r}")


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def _says(one: ListedMemory) -> str:
    said = " ".join((one.passage or one.text).split())
    said = said if len(said) <= _TEXT_CHARS else f"{said[: _TEXT_CHARS - 1].rsplit(' ', 1)[0]} …"
    tags = f" [{', '.join(one.tags)}]" if one.tags else ""
    return (f"{one.speaker}: {said}" if one.speaker else said) + tags


def _details(details: MemoryDetails) -> dict[str, Any]:
    memory = details.memory
    state = "live" if memory.superseded_by is None else f"superseded by {memory.superseded_by}"
    values: dict[str, Any] = {"id": memory.id, "state": "deleted" if memory.deleted_at is not None else state}
    values |= asdict(memory) | asdict(details)
    values |= {name: _moment(values[name]) for name in _TIMES} | {"live": memory.is_live}
    values["times"] = [
        {"text": one.text, "since": _moment(one.since), "until": _moment(one.until)} for one in memory.times
    ]
    return {name: value for name, value in values.items() if name not in _INNER}


def _changed(step: HistoryStep) -> str:
    told = [f"{name}: {visible(value)}" for name, value in step.lineage.items()]
    before, after = step.before, step.after or {}
    if before is None:
        return "\n".join([*([visible(after["text"])] if after.get("text") else []), *told])
    if "erased" in before:
        return "\n".join([*told, "(erased)"])
    names = [name for name in after if name not in _NOT_SHOWN and before.get(name) != after[name]]
    return "\n".join([*told, *(f"{name}: {_short(before.get(name))} -> {_short(after[name])}" for name in names)])


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _short(value: JsonValue) -> str:
    text = "nothing" if value in (None, "", []) else visible(value)
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 3]}..."
