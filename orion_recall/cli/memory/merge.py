"""`orion-recall memory merge`: proposes, makes and undoes merges of names."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, cast, get_args

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.output import (
    JsonFlag,
    console,
    counted,
    note,
    print_error,
    print_json,
    table,
)
from orion_recall.errors import SettingsError
from orion_recall.memory.names.merges import Merge, Merged, Merges, WantedMerge
from orion_recall.memory.names.propose import MIN_COSINE, MIN_STRING, Proposal, Proposals, ProposedBy, propose
from orion_recall.memory.record.aliases import NameKind
from orion_recall.models.opening import open_embedder
from orion_recall.settings import Settings

_KINDS: tuple[NameKind, ...] = ("entity", "relation")
_WHY_NOT = {
    "number": "their numbers differ",
    "title": "one is a woman's name, the other a man's",
    "direction": "their prepositions differ",
    "tense": "one is past",
    "opposite": "one denies the other",
    "together": "one memory names both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The options that every way to merge shares."""

    tenant: str
    kinds: Sequence[NameKind]
    min_string: float
    min_cosine: float
    by: ProposedBy
    actor: str | None


def merge_names(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|NAME]...", help="Ids of proposals or merges, or names.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Merge what is proposed under these ids.")] = False,
    every: Annotated[bool, typer.Option("--all", help="With --apply: merge everything that is proposed.")] = False,
    into: Annotated[str | None, typer.Option(metavar="NAME", help="Merge these names into this one.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the merges of these ids.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the merges.")] = False,
    kind: Annotated[str | None, typer.Option(metavar="entity|relation", help="Only names of this kind.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant whose memories they are.")] = None,
    min_string: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least similarity in spelling.")] = MIN_STRING,
    min_cosine: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least similarity in meaning.")] = MIN_COSINE,
    by: Annotated[
        str,
        typer.Option(
            metavar="both|letters|meaning",
            help="What proposed names are alike in: spelling and meaning, spelling alone, or meaning alone.",
        ),
    ] = "both",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 50,
    actor: Annotated[str | None, typer.Option(help="Name of who merges, for the history.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Propose names that most likely mean the same, merge them, undo merges.

    Without --apply, --into or --undo nothing is changed. --by letters proposes what is spelt alike whatever it
    means (Robert Miles, Robert Myles), --by meaning what is near by the vectors of the names however it is spelt:
    these are merged by their ids only, never by --all. A merge leaves the memories' texts as they are: index and
    graph show them under the name that was merged into, and find them by both names, until it is undone. With
    --apply give the thresholds that the proposals were made with.

    Example: `orion-recall memory merge --into "Robert Miles" "Bob" "Bob Miles"`
    """
    given = what or []
    _check(given, apply=apply, every=every, into=into, undo=undo, listed=listed, kind=kind)
    if by not in get_args(ProposedBy):
        raise SettingsError(f"--by: {by!r} is none of {', '.join(get_args(ProposedBy))}")
    if every and by != "both":
        raise SettingsError(
            "--all is for names alike in spelling and meaning: say which others to merge, by their ids"
        )
    settings = find(data)
    kinds = _KINDS if kind is None else (cast("NameKind", kind),)
    request = _Request(
        tenant=tenant or settings.default_tenant,
        kinds=kinds,
        min_string=min_string,
        min_cosine=min_cosine,
        by=cast("ProposedBy", by),
        actor=actor,
    )
    if listed:
        _show_merges(asyncio.run(_merges(settings, request)), limit, as_json=as_json)
        return 0
    if undo:
        return _show_merged(asyncio.run(_undo(settings, request, _numbers(given))), as_json=as_json)
    if into is not None:
        wanted = [WantedMerge(kind=kinds[0], alias=name.strip(), into=into.strip()) for name in given]
        return _show_merged(asyncio.run(_merge(settings, request, wanted)), as_json=as_json)
    found = asyncio.run(_propose(settings, request))
    if not apply:
        _show_proposals(found, limit, as_json=as_json)
        return 0
    proposed = {one.id: one for part in found for one in part.proposals}
    if unknown := [name for name in given if name not in proposed]:
        why = "is not proposed under these thresholds, or not any more: nothing was merged"
        print_error("NotFound", f"{unknown[0]!r} {why}", as_json=as_json)
        return 1
    chosen = [one for one in proposed.values() if every or one.id in given]
    return _show_merged(asyncio.run(_merge(settings, request, [_wanted(one) for one in chosen])), as_json=as_json)


def _check(
    given: Sequence[str], *, apply: bool, every: bool, into: str | None, undo: bool, listed: bool, kind: str | None
) -> None:
    if sum((apply, into is not None, undo, listed)) > 1:
        raise SettingsError("give one of --apply, --into, --undo and --list")
    if kind is not None and kind not in _KINDS:
        raise SettingsError(f"--kind: {kind!r} is none of {', '.join(_KINDS)}")
    if every and not apply:
        raise SettingsError("--all is for --apply")
    if apply and every == bool(given):
        raise SettingsError("--apply: give the ids of proposals, or --all")
    if (undo or into is not None) and not given:
        raise SettingsError("--undo: give the ids of merges" if undo else "--into: give the names that are merged")
    if given and not (apply or undo or into is not None):
        raise SettingsError(f"what is to be done with {given[0]!r}? Give --apply, --into NAME or --undo")


def _numbers(given: Sequence[str]) -> list[int]:
    for one in given:
        if not (one.isascii() and one.isdecimal() and len(one) <= 18):
            raise SettingsError(f"--undo: {one!r} is no id of a merge: see --list")
    return [int(one) for one in given]


def _wanted(one: Proposal) -> WantedMerge:
    return WantedMerge(
        kind=one.kind, alias=one.alias, into=one.into, scores={"string": one.string, "cosine": one.cosine}
    )


async def _propose(settings: Settings, request: _Request) -> list[Proposals]:
    async with open_postgres(settings) as pool, open_embedder(settings) as embedder:
        merges = Merges(pool)
        return [
            await propose(
                await merges.names(request.tenant, kind),
                embedder,
                tenant=request.tenant,
                kind=kind,
                min_string=request.min_string,
                min_cosine=request.min_cosine,
                by=request.by,
            )
            for kind in request.kinds
        ]


async def _merge(settings: Settings, request: _Request, wanted: Sequence[WantedMerge]) -> Merged:
    async with open_postgres(settings) as pool:
        return await Merges(pool).merge(request.tenant, wanted, actor=request.actor)


async def _undo(settings: Settings, request: _Request, ids: Sequence[int]) -> Merged:
    async with open_postgres(settings) as pool:
        return await Merges(pool).undo(request.tenant, ids, actor=request.actor)


async def _merges(settings: Settings, request: _Request) -> list[Merge]:
    async with open_postgres(settings) as pool:
        found = await Merges(pool).of(request.tenant, undone=True)
    return [one for one in found if one.kind in request.kinds][::-1]


def _show_proposals(found: Sequence[Proposals], limit: int, *, as_json: bool) -> None:
    proposals = [one for part in found for one in part.proposals]
    left_out: Counter[str] = Counter()
    for part in found:
        left_out.update(cast("Mapping[str, int]", part.left_out))
    if as_json:
        listed = [asdict(one) for one in proposals[:limit]]
        print_json({"proposals": listed, "count": len(proposals), "left_out": dict(left_out)})
        return
    columns = ("id", "kind", "name", "memories", "into", "memories", "spelling", "meaning", "for example")
    rows = [
        (
            one.id,
            one.kind,
            one.alias,
            one.alias_memories,
            one.into,
            one.into_memories,
            round(one.string, 2),
            round(one.cosine, 2),
            ", ".join(one.examples),
        )
        for one in proposals[:limit]
    ]
    if rows:
        console().print(table(columns, rows))
    note(
        f"{counted(len(proposals), 'merge')} proposed, {len(rows)} shown; nothing was changed (--apply ID..., or "
        "--apply --all)"
    )
    for why, count in sorted(left_out.items()):
        note(f"left out, though spelt alike: {counted(count, 'pair')} ({_WHY_NOT[why]})")


def _show_merges(found: Sequence[Merge], limit: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"merges": [asdict(one) for one in found[:limit]], "count": len(found)})
        return
    columns = ("id", "kind", "name", "into", "shown as", "at (UTC)", "by", "undone (UTC)")
    rows = [
        (one.id, one.kind, one.alias, one.into, one.canonical, _moment(one.at), one.actor, _moment(one.undone_at))
        for one in found[:limit]
    ]
    console().print(table(columns, rows))


def _show_merged(merged: Merged, *, as_json: bool) -> int:
    failed = [one for one in merged.verdicts if one.status in ("conflict", "missing")]
    if as_json:
        print_json(asdict(merged))
    else:
        rows = [(one.id, one.status, one.alias, one.into, one.reason) for one in merged.verdicts]
        console().print(table(("id", "", "name", "into", "why"), rows))
        if merged.position is not None:
            note(
                f"{counted(merged.memories, 'memory')} with these names; index and graph follow (position "
                f"{merged.position})"
            )
    return 1 if failed else 0


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
