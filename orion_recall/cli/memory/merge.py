"""`orion-recall memory merge`: proposes, makes and undoes merges of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import Actor, DataFolder, Tenant, find, with_pool
from orion_recall.cli.output import JsonFlag, NotFound, counted, show, table
from orion_recall.errors import SettingsError
from orion_recall.memory.names.merges import (
    MIN_COSINE,
    MIN_STRING,
    Merge,
    Merged,
    Merges,
    Proposal,
    WantedMerge,
    propose,
)
from orion_recall.memory.record.aliases import NameKind
from orion_recall.models.opening import open_embedder
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings

_KINDS: tuple[NameKind, ...] = ("entity", "relation")


def merge_names(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|NAME]...", help="Ids of proposals or merges, or names.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Merge what is proposed under these ids.")] = False,
    into: Annotated[str | None, typer.Option(metavar="NAME", help="Merge these names into this one.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the merges of these ids.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the merges.")] = False,
    kind: Annotated[NameKind | None, typer.Option(help="Only names of this kind.")] = None,
    tenant: Tenant = None,
    min_string: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least similarity in spelling.")] = MIN_STRING,
    min_cosine: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least similarity in meaning.")] = MIN_COSINE,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 50,
    actor: Actor = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Propose names that most likely mean the same, merge them, undo merges.

    Without --apply, --into or --undo nothing is changed. A merge leaves the texts as they are: index and graph show
    them under the name that was merged into, and find them by both names, until it is undone. With --apply give the
    thresholds of the proposals.

    Example: `orion-recall memory merge --into "Robert Miles" "Bob" "Bob Miles"`
    """
    given = what or []
    _check(given, apply=apply, into=into, undo=undo, listed=listed)
    settings = find(data)
    kinds: Sequence[NameKind] = _KINDS if kind is None else (kind,)
    if listed:
        found = with_pool(settings, tenant, lambda pool, whose: Merges(pool).of(whose, undone=True))
        _show_merges([one for one in found if one.kind in kinds][::-1], limit, as_json=as_json)
        return 0
    if undo:
        numbers = _numbers(given)
        undone = with_pool(settings, tenant, lambda pool, whose: Merges(pool).undo(whose, numbers, actor=actor))
        return _show_merged(undone, as_json=as_json)
    if into is not None:
        wanted = [WantedMerge(kind=kinds[0], alias=name.strip(), into=into.strip()) for name in given]
    else:
        least = {"min_string": min_string, "min_cosine": min_cosine}
        proposals = with_pool(settings, tenant, lambda pool, whose: _propose(settings, pool, whose, kinds, least))
        if not apply:
            _show_proposals(proposals, limit, as_json=as_json)
            return 0
        proposed = {one.id: one for one in proposals}
        if unknown := [name for name in given if name not in proposed]:
            raise NotFound(
                f"{unknown[0]!r} is not proposed under these thresholds, or not any more: nothing was merged"
            )
        wanted = [_wanted(one) for one in proposed.values() if one.id in given]
    merged = with_pool(settings, tenant, lambda pool, whose: Merges(pool).merge(whose, wanted, actor=actor))
    return _show_merged(merged, as_json=as_json)


def _check(given: Sequence[str], *, apply: bool, into: str | None, undo: bool, listed: bool) -> None:
    if sum((apply, into is not None, undo, listed)) > 1:
        raise SettingsError("give one of --apply, --into, --undo and --list")
    if apply and not given:
        raise SettingsError("--apply: give the ids of proposals")
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


async def _propose(
    settings: Settings, pool: Pool, tenant: str, kinds: Sequence[NameKind], least: dict[str, float]
) -> list[Proposal]:
    async with open_embedder(settings) as embedder:
        found: list[Proposal] = []
        for kind in kinds:
            names = await Merges(pool).names(tenant, kind)
            found += await propose(names, embedder, tenant=tenant, kind=kind, **least)
        return found


def _show_proposals(proposals: Sequence[Proposal], limit: int, *, as_json: bool) -> None:
    shown = proposals[:limit]
    rows = [
        (one.id, one.kind, one.alias, one.alias_memories, one.into, one.into_memories, round(one.string, 2),
         round(one.cosine, 2), ", ".join(one.examples))
        for one in shown
    ]  # fmt: skip
    columns = ("id", "kind", "name", "memories", "into", "memories", "spelling", "meaning", "for example")
    show(
        {"proposals": [asdict(one) for one in shown], "count": len(proposals)},
        *([table(columns, rows)] if rows else []),
        as_json=as_json,
        remarks=[
            f"{counted(len(proposals), 'merge')} proposed, {len(rows)} shown; nothing was changed (--apply ID...)"
        ],
    )


def _show_merges(found: Sequence[Merge], limit: int, *, as_json: bool) -> None:
    rows = [
        (one.id, one.kind, one.alias, one.into, one.canonical, _moment(one.at), one.actor, _moment(one.undone_at))
        for one in found[:limit]
    ]
    show(
        {"merges": [asdict(one) for one in found[:limit]], "count": len(found)},
        table(("id", "kind", "name", "into", "shown as", "at (UTC)", "by", "undone (UTC)"), rows),
        as_json=as_json,
    )


def _show_merged(merged: Merged, *, as_json: bool) -> int:
    follow = None
    if merged.position is not None:
        names = counted(merged.memories, "memory")
        follow = f"{names} with these names; index and graph follow (position {merged.position})"
    rows = [(one.id, one.status, one.alias, one.into, one.reason) for one in merged.verdicts]
    show(asdict(merged), table(("id", "", "name", "into", "why"), rows), as_json=as_json, remarks=[follow])
    return 1 if any(one.status in ("conflict", "missing") for one in merged.verdicts) else 0


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
