"""`orion-recall memory list`, `show`, `history`, `succeeds`, `merge`, `extract`: the record, without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from orion_recall.cli.addresses import Actor, DataFolder, Tenant, find, open_bus, with_pool
from orion_recall.cli.options import Zone, with_fields, with_times
from orion_recall.cli.output import (
    NotFound,
    Table,
    counted,
    document,
    limited,
    listed,
    moment_of,
    print_error,
    report,
    show,
    visible,
    wants_json,
)
from orion_recall.cli.serving.status import running_extractors
from orion_recall.contracts import MemoryWhereV1, read_message
from orion_recall.errors import BusUnavailable, OrionError, SettingsError
from orion_recall.memory.names.merges import Merged, Merges, Proposal, WantedMerge, propose
from orion_recall.memory.record import extraction_queue, successions
from orion_recall.memory.record.aliases import NameKind
from orion_recall.memory.record.record import HistoryStep, ListedMemory, MemoryDetails, Record, history
from orion_recall.memory.record.successions import HeldSuccession
from orion_recall.models.opening import open_embedder
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings, known_extractor
from orion_recall.values import JsonValue

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")]

_TEXT_CHARS, _CELL_CHARS = 160, 120
# Of a history: what follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(
    ("seq", "version", "updated_at", "recorded_at", "text_hash", "simhash", "content_hash", "statements")
)
_INNER = frozenset(("memory", "supersedes", "lacks_context", "text_hash", "content_hash"))
_TIMES = ("occurred_at", "occurred_until", "mentioned_at", "deleted_at")
_KINDS: tuple[NameKind, ...] = ("entity", "relation")
_MOST_NAMES = 50


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
    quoted = (f'"{word}"' if " " in word else word for word in words or ())
    query = words[0] if words and len(words) == 1 else " ".join(quoted)

    async def read(pool: Pool, whose: str) -> list[ListedMemory]:
        browser = Record(pool)
        if words:
            return await browser.search(whose, query, where, limit + 1)
        return await browser.newest(whose, where, limit + 1)

    found = with_pool(settings, tenant, read)
    shown = found[:limit]
    given = [{name: value for name, value in asdict(one).items() if value is not None} for one in shown]
    listed(
        {"memories": given, "truncated": len(found) > limit},
        ("at (UTC)", "id", "what it says"),
        [(f"{one.at:%Y-%m-%d %H:%M}{'' if one.is_dated else '*'}", one.id, _says(one)) for one in shown],
        nothing="there is no such memory",
        remarks=(
            None if all(one.is_dated for one in shown) else "* undated: stored at this time",
            limited(limit, "memory") if len(found) > limit else None,
        ),
    )


def show_memory(memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None) -> None:
    """Show everything about one memory: what it says, what was extracted, its state, and how often it was of use.

    Deleted and superseded memories are shown, too. What it said before: `memory history`.

    Example: `orion-recall memory show m-1`
    """

    async def read(pool: Pool, whose: str) -> MemoryDetails:
        if (details := await Record(pool).details(whose, memory_id)) is None:
            raise _no_such_memory(whose, memory_id)
        return details

    report(_details(with_pool(find(data), tenant, read)))


def show_history(memory_id: MemoryId, tenant: Tenant = None, data: DataFolder = None) -> None:
    """Show every change of a memory: added, updated, merged, superseded, deleted, by whom and when.

    A row shows what changed; --json has the whole memory before and after each change. A second table shows the
    memories that it succeeds and those that succeed it, who stated it and why.

    Example: `orion-recall memory history m-1`
    """

    async def read(pool: Pool, whose: str) -> tuple[list[HistoryStep], list[HeldSuccession]]:
        steps = await history(pool, whose, memory_id)
        if not steps:
            raise _no_such_memory(whose, memory_id)
        return steps, await successions.of_memory(pool, whose, memory_id)

    steps, stated = with_pool(find(data), tenant, read)
    links = [asdict(one) | {"at": moment_of(one.at), "changed_at": moment_of(one.changed_at)} for one in stated]
    rows = [(moment_of(one.at), one.version, one.op, one.actor, _changed(one)) for one in steps]
    columns = ("at (UTC)", "version", "step", "by", "what it changed")
    told = [asdict(step) | {"at": moment_of(step.at)} for step in steps]
    value = {"id": memory_id, "steps": told, "successions": links}
    show(value, Table(columns, rows), *document({"successions": links}))


def set_succession(
    newer: Annotated[str, typer.Argument(metavar="NEW", help="The newer memory's id.")],
    older: Annotated[str, typer.Argument(metavar="OLD", help="The older memory's id.")],
    undo: Annotated[bool, typer.Option("--undo", help="It does not: undo the succession.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    data: DataFolder = None,
) -> None:
    """Say that a memory succeeds an older one.

    Neither memory is changed: recalls get the newer one first, and the older one is marked, left out or kept as the
    profile says (`superseded`). With --undo the two have nothing to do with each other, and no extractor brings it
    back. `orion-recall memory history ID` shows the successions of a memory.

    Example: `orion-recall memory succeeds m-7 m-2`
    """
    done = with_pool(
        find(data), tenant,
        lambda pool, whose: successions.by_person(pool, whose, newer, older, undo=undo, actor=actor),
    )  # fmt: skip
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
    show({"newer": newer, "older": older, "state": done.state}, told)


def _no_such_memory(tenant: str, memory_id: str) -> NotFound:
    return NotFound(f"no memory of {tenant!r} has the id {memory_id!r}")


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
    values |= {name: moment_of(values[name]) for name in _TIMES} | {"live": memory.is_live}
    values["times"] = [
        {"text": one.text, "since": moment_of(one.since), "until": moment_of(one.until)} for one in memory.times
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


def _short(value: JsonValue) -> str:
    text = "nothing" if value in (None, "", []) else visible(value)
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 3]}..."


def merge_names(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|NAME]...", help="Ids of proposals or merges, or names.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Merge what is proposed under these ids.")] = False,
    into: Annotated[str | None, typer.Option(metavar="NAME", help="Merge these names into this one.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the merges of these ids.")] = False,
    list_merges: Annotated[bool, typer.Option("--list", help="List the merges.")] = False,
    kind: Annotated[NameKind | None, typer.Option(help="Only names of this kind.")] = None,
    tenant: Tenant = None,
    actor: Actor = None,
    data: DataFolder = None,
) -> int:
    """Propose names that most likely mean the same, merge them, undo merges.

    Without --apply, --into or --undo nothing is changed. A merge leaves the texts as they are: index and graph show
    them under the name that was merged into, and find them by both names, until it is undone. Shown are up to 50
    proposals or merges; --json has all.

    Example: `orion-recall memory merge --into "Robert Miles" "Bob" "Bob Miles"`
    """
    given = what or []
    if sum((apply, into is not None, undo, list_merges)) > 1:
        raise SettingsError("give one of --apply, --into, --undo and --list")
    if given and not (apply or undo or into is not None):
        raise SettingsError(f"what is to be done with {given[0]!r}? Give --apply, --into NAME or --undo")
    if not given and (apply or undo or into is not None):
        raise SettingsError("give names with --into, ids of proposals with --apply, ids of merges with --undo")
    if undo and (wrong := [one for one in given if not (one.isascii() and one.isdecimal() and len(one) <= 18)]):
        raise SettingsError(f"--undo: {wrong[0]!r} is no id of a merge: see --list")
    settings = find(data)
    kinds: Sequence[NameKind] = _KINDS if kind is None else (kind,)

    async def work(pool: Pool, whose: str) -> int:
        merges = Merges(pool)
        if list_merges:
            found = [one for one in await merges.of(whose, undone=True) if one.kind in kinds][::-1]
            rows = [
                (one.id, one.kind, one.alias, one.into, one.canonical, moment_of(one.at), one.actor,
                 moment_of(one.undone_at))
                for one in found[:_MOST_NAMES]
            ]  # fmt: skip
            columns = ("id", "kind", "name", "into", "shown as", "at (UTC)", "by", "undone (UTC)")
            listed({"merges": found, "count": len(found)}, columns, rows, nothing="nothing was merged")
            return 0
        if undo:
            return _show_merged(await merges.undo(whose, [int(one) for one in given], actor=actor))
        if into is not None:
            wanted = [WantedMerge(kind=kinds[0], alias=name.strip(), into=into.strip()) for name in given]
            return _show_merged(await merges.merge(whose, wanted, actor=actor))
        proposals = await _propose(settings, merges, whose, kinds)
        if not apply:
            return _show_proposals(proposals)
        if unknown := set(given) - {one.id for one in proposals}:
            raise NotFound(f"{min(unknown)!r} is not proposed, or not any more: nothing was merged")
        wanted = [
            WantedMerge(
                kind=one.kind, alias=one.alias, into=one.into, scores={"string": one.string, "cosine": one.cosine}
            )
            for one in proposals
            if one.id in given
        ]
        return _show_merged(await merges.merge(whose, wanted, actor=actor))

    return with_pool(settings, tenant, work)


async def _propose(settings: Settings, merges: Merges, tenant: str, kinds: Sequence[NameKind]) -> list[Proposal]:
    async with open_embedder(settings) as embedder:
        found: list[Proposal] = []
        for kind in kinds:
            found += await propose(await merges.names(tenant, kind), embedder, tenant=tenant, kind=kind)
        return found


def _show_proposals(proposals: Sequence[Proposal]) -> int:
    rows = [
        (one.id, one.kind, one.alias, one.alias_memories, one.into, one.into_memories, round(one.string, 2),
         round(one.cosine, 2), ", ".join(one.examples))
        for one in proposals[:_MOST_NAMES]
    ]  # fmt: skip
    listed(
        {"proposals": proposals, "count": len(proposals)},
        ("id", "kind", "name", "memories", "into", "memories", "spelling", "meaning", "for example"),
        rows,
        remarks=[f"{counted(len(proposals), 'merge')} proposed; nothing was changed (--apply ID...)"],
    )
    return 0


def _show_merged(merged: Merged) -> int:
    follow = None
    if merged.position is not None:
        names = counted(merged.memories, "memory")
        follow = f"{names} with these names; index and graph follow (position {merged.position})"
    rows = [(one.id, one.status, one.alias, one.into, one.reason) for one in merged.verdicts]
    listed(merged, ("id", "", "name", "into", "why"), rows, remarks=[follow])
    return 1 if any(one.status in ("conflict", "missing") for one in merged.verdicts) else 0


def extract_memories(
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="This memory; again for more.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every memory of the tenant.")] = False,
    fallen_back: Annotated[bool, typer.Option("--fallen-back", help="Those that fell back to light.")] = False,
    extractor: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="light|spacy|llm|NAME",
            help="The extractor, NAME of one of another package (default: ORION_EXTRACTOR).",
        ),
    ] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
) -> int:
    """Queue memories for extraction: a running worker finds their names and statements again.

    A worker with that ORION_EXTRACTOR does it; every worker does light extraction. Until then the memories stay as
    they are. If no running worker has it, nothing is queued, and the error says what to set. Without --id, --all or
    --fallen-back it only prints how many memories are queued.

    Example: `orion-recall memory extract --fallen-back --with llm`
    """
    asked = bool(ids) + every + fallen_back
    if asked > 1:
        raise SettingsError("give only one of --id, --all and --fallen-back")
    settings = find(data)
    try:
        chosen = known_extractor(extractor or settings.extractor)
    except ValueError as error:
        raise SettingsError(f"--with: {error}") from error
    if asked:
        asyncio.run(_check_that_somebody_does_it(settings, chosen))

    async def queue_again(pool: Pool, whose: str) -> tuple[list[str], dict[str, int]]:
        queued: list[str] = []
        if asked:
            given = whose, ids or None
            queued = await extraction_queue.queue_again(pool, *given, extractor=chosen, only_noted=fallen_back)
        return queued, await extraction_queue.due(pool)

    whose = tenant or settings.default_tenant
    queued, waiting = with_pool(settings, whose, queue_again)
    missing = [one for one in ids or () if one not in queued]
    show(
        {"tenant": whose, "extractor": chosen, "due": len(queued), "missing": missing, "waiting": waiting},
        Table(("extractor", "memories that wait"), list(waiting.items())),
        remarks=[f"{counted(len(queued), 'memory')} queued for {chosen}" if queued else None],
    )
    if missing and not wants_json():
        print_error(f"{whose!r} has no live memory {', '.join(map(repr, missing))}")
    return 1 if missing else 0


async def _check_that_somebody_does_it(settings: Settings, extractor: str) -> None:
    if extractor == "light":
        return
    try:
        async with open_bus(settings) as redis:
            running = await running_extractors(redis, settings)
    except (BusUnavailable, SettingsError):
        running = None
    if extractor in (running if running is not None else {settings.extractor}):
        return
    further = ", ORION_LLM_URL and ORION_LLM_MODEL" if extractor == "llm" else ""
    has = f"they have {' and '.join(sorted(running))}" if running else "none was found"
    raise SettingsError(
        f"no running worker extracts with {extractor} ({has}), and memories would wait for ever; nothing was "
        f"queued. Set ORION_EXTRACTOR={extractor}{further} for a worker, and start it again"
    )
