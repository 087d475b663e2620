"""`orion-recall memory merge` and `extract`: names that mean the same, and memories whose names are found again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from orion_recall.cli.addresses import Actor, DataFolder, Tenant, find, open_bus, with_pool
from orion_recall.cli.output import JsonFlag, NotFound, counted, listed, print_error, show, table
from orion_recall.cli.serving.status import running_extractors
from orion_recall.errors import BusUnavailable, SettingsError
from orion_recall.memory.names.merges import Merged, Merges, Proposal, WantedMerge, propose
from orion_recall.memory.record.aliases import NameKind
from orion_recall.memory.record.extraction_queue import ExtractionQueue
from orion_recall.models.opening import open_embedder
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings

_KINDS: tuple[NameKind, ...] = ("entity", "relation")
_SHOWN = 50


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
    as_json: JsonFlag = False,
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
    settings = find(data)
    kinds: Sequence[NameKind] = _KINDS if kind is None else (kind,)
    if list_merges:
        _list_merges(settings, tenant, kinds, as_json=as_json)
        return 0
    if undo:
        if wrong := [one for one in given if not (one.isascii() and one.isdecimal() and len(one) <= 18)]:
            raise SettingsError(f"--undo: {wrong[0]!r} is no id of a merge: see --list")
        numbers = [int(one) for one in given]
        undone = with_pool(settings, tenant, lambda pool, whose: Merges(pool).undo(whose, numbers, actor=actor))
        return _show_merged(undone, as_json=as_json)
    if into is not None:
        wanted = [WantedMerge(kind=kinds[0], alias=name.strip(), into=into.strip()) for name in given]
    else:
        proposals = with_pool(settings, tenant, lambda pool, whose: _propose(settings, pool, whose, kinds))
        if not apply:
            _show_proposals(proposals, as_json=as_json)
            return 0
        if unknown := set(given) - {one.id for one in proposals}:
            raise NotFound(f"{min(unknown)!r} is not proposed, or not any more: nothing was merged")
        wanted = [
            WantedMerge(
                kind=one.kind, alias=one.alias, into=one.into, scores={"string": one.string, "cosine": one.cosine}
            )
            for one in proposals
            if one.id in given
        ]
    merged = with_pool(settings, tenant, lambda pool, whose: Merges(pool).merge(whose, wanted, actor=actor))
    return _show_merged(merged, as_json=as_json)


async def _propose(settings: Settings, pool: Pool, tenant: str, kinds: Sequence[NameKind]) -> list[Proposal]:
    async with open_embedder(settings) as embedder:
        found: list[Proposal] = []
        for kind in kinds:
            names = await Merges(pool).names(tenant, kind)
            found += await propose(names, embedder, tenant=tenant, kind=kind)
        return found


def _show_proposals(proposals: Sequence[Proposal], *, as_json: bool) -> None:
    rows = [
        (one.id, one.kind, one.alias, one.alias_memories, one.into, one.into_memories, round(one.string, 2),
         round(one.cosine, 2), ", ".join(one.examples))
        for one in proposals[:_SHOWN]
    ]  # fmt: skip
    listed(
        {"proposals": [asdict(one) for one in proposals], "count": len(proposals)},
        ("id", "kind", "name", "memories", "into", "memories", "spelling", "meaning", "for example"),
        rows,
        as_json=as_json,
        remarks=[f"{counted(len(proposals), 'merge')} proposed; nothing was changed (--apply ID...)"],
    )


def _list_merges(settings: Settings, tenant: str | None, kinds: Sequence[NameKind], *, as_json: bool) -> None:
    every = with_pool(settings, tenant, lambda pool, whose: Merges(pool).of(whose, undone=True))
    found = [one for one in every if one.kind in kinds][::-1]
    rows = [
        (one.id, one.kind, one.alias, one.into, one.canonical, _moment(one.at), one.actor, _moment(one.undone_at))
        for one in found[:_SHOWN]
    ]
    listed(
        {"merges": [asdict(one) for one in found], "count": len(found)},
        ("id", "kind", "name", "into", "shown as", "at (UTC)", "by", "undone (UTC)"),
        rows,
        as_json=as_json,
        nothing="nothing was merged",
    )


def _show_merged(merged: Merged, *, as_json: bool) -> int:
    follow = None
    if merged.position is not None:
        names = counted(merged.memories, "memory")
        follow = f"{names} with these names; index and graph follow (position {merged.position})"
    rows = [(one.id, one.status, one.alias, one.into, one.reason) for one in merged.verdicts]
    listed(asdict(merged), ("id", "", "name", "into", "why"), rows, as_json=as_json, remarks=[follow])
    return 1 if any(one.status in ("conflict", "missing") for one in merged.verdicts) else 0


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def extract_memories(
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="This memory; again for more.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every memory of the tenant.")] = False,
    fallen_back: Annotated[bool, typer.Option("--fallen-back", help="Those that fell back to light.")] = False,
    extractor: Annotated[
        Literal["light", "spacy", "llm"] | None,
        typer.Option("--with", help="The extractor (default: ORION_EXTRACTOR)."),
    ] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
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
    chosen = extractor or settings.extractor
    if asked:
        asyncio.run(_check_that_somebody_does_it(settings, chosen))

    async def queue_again(pool: Pool, whose: str) -> tuple[list[str], dict[str, int]]:
        queue = ExtractionQueue(pool)
        queued: list[str] = []
        if asked:
            queued = await queue.queue_again(whose, ids or None, extractor=chosen, only_noted=fallen_back)
        return queued, await queue.due()

    whose = tenant or settings.default_tenant
    queued, waiting = with_pool(settings, whose, queue_again)
    missing = [one for one in ids or () if one not in queued]
    show(
        {"tenant": whose, "extractor": chosen, "due": len(queued), "missing": missing, "waiting": waiting},
        table(("extractor", "memories that wait"), list(waiting.items())),
        as_json=as_json,
        remarks=[f"{counted(len(queued), 'memory')} queued for {chosen}" if queued else None],
    )
    if missing and not as_json:
        print_error("NotFound", f"{whose!r} has no live memory {', '.join(map(repr, missing))}", as_json=False)
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
