"""Merging names: one name of an entity or a relation is shown under another, until that is undone.

The record keeps what the memories say. A merge is a row of its own, and index and graph are told of every memory
that gives the name again: they show it under the name that it was merged into, with all that follows from that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from orion_recall.memory.names import merges_sql as sql
from orion_recall.memory.names.propose import NamesUsed
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.aliases import NameKind
from orion_recall.postgres.pool import Connection, Pool, Row, borrow
from orion_recall.text.normal import storable
from orion_recall.values import JsonValue

MAX_NAME_CHARS = 512
_AT_ONCE = 2000

MergeStatus = Literal["merged", "unchanged", "conflict", "undone", "missing"]
_Called = Mapping[tuple[NameKind, str], str]


class Link(NamedTuple):
    """One merge in force: the alias, folded, and the name that was asked for."""

    kind: NameKind
    alias: str
    into: str


def resolved(links: Iterable[Link]) -> dict[tuple[NameKind, str], str]:
    """What every alias is called: the name at the end of its chain, spelt as by the first link to it.

    The links come in the order in which they were made, and no chain of them leads back.
    """
    following: dict[tuple[NameKind, str], str] = {}
    spelling: dict[tuple[NameKind, str], str] = {}
    for link in links:
        following[link.kind, link.alias] = link.into
        spelling.setdefault((link.kind, link.into.casefold()), link.into)
    called: dict[tuple[NameKind, str], str] = {}
    for kind, alias in following:
        end = alias
        while (kind, end) in following:
            end = following[kind, end].casefold()
        called[kind, alias] = spelling[kind, end]
    return called


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMerge:
    """A requested merge: a name to show under another; `scores` are those of its proposal, if any."""

    kind: NameKind
    alias: str
    into: str
    scores: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A stored merge; `canonical` is the name shown, `into` the one asked for. Times are epoch seconds."""

    id: int
    kind: NameKind
    alias: str
    into: str
    canonical: str
    scores: Mapping[str, JsonValue]
    actor: str | None
    at: float
    undone_at: float | None
    undone_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeVerdict:
    """The verdict on one request; `id` is the merge's, also of one that was in force already, or is in the way."""

    status: MergeStatus
    id: int | None = None
    alias: str | None = None
    into: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of requests: verdicts in their order, and how many memories give names that they concern.

    `position` is where in the outbox index and graph have all of it; None when nothing changed.
    """

    verdicts: tuple[MergeVerdict, ...]
    memories: int = 0
    position: int | None = None


class Merges:
    """The merges of all tenants. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def merge(self, tenant: str, wanted: Sequence[WantedMerge], *, actor: str | None = None) -> Merged:
        """Merges names, each judged alone and after those before it, in one transaction.

        A conflict is a name that is merged into another already, a chain that would lead back, and names that no
        memory gives.
        """
        async with borrow(self._pool, "merging names") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            held = await _held(connection, tenant)
            spellings = await _spellings(connection, tenant)
            before, verdicts = resolved(held.values()), list[MergeVerdict]()
            for one in wanted:
                verdict = _judged(one, held, spellings)
                if verdict is None:
                    made = await _insert(connection, tenant, one, actor)
                    held[made] = Link(one.kind, one.alias.casefold(), one.into)
                    unheard = (one.kind, one.alias.casefold()) not in spellings
                    why = "no memory gives this name yet" if unheard else None
                    verdict = MergeVerdict(status="merged", id=made, alias=one.alias, into=one.into, reason=why)
                verdicts.append(verdict)
            new = [one.id for one in verdicts if one.status == "merged"]
            after = resolved(held.values())
            lineage: dict[str, JsonValue] = {"merged": new}
            told = await _tell(connection, tenant, before, after, spellings, actor, lineage)
        return Merged(verdicts=tuple(verdicts), memories=told[0], position=told[1])

    async def undo(self, tenant: str, ids: Sequence[int], *, actor: str | None = None) -> Merged:
        """Undoes merges, in one transaction: what they changed is as it was. One that is undone stays so."""
        async with borrow(self._pool, "undoing merges") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            known = {row["id"]: row["in_force"] for row in await connection.fetch(sql.BY_ID, tenant, list(ids))}
            in_force = [one for one in dict.fromkeys(ids) if known.get(one)]
            told: tuple[int, int | None] = (0, None)
            if in_force:
                held = await _held(connection, tenant)
                after = resolved(link for number, link in held.items() if number not in in_force)
                await connection.execute(sql.UNDO, tenant, in_force, actor)
                spellings, before = await _spellings(connection, tenant), resolved(held.values())
                lineage: dict[str, JsonValue] = {"undone": in_force}
                told = await _tell(connection, tenant, before, after, spellings, actor, lineage)
        return Merged(verdicts=tuple(_undone(number, known) for number in ids), memories=told[0], position=told[1])

    async def of(self, tenant: str, *, undone: bool = False) -> list[Merge]:
        """The merges in force, oldest first; with `undone` those that were undone as well."""
        async with borrow(self._pool, "reading merges") as connection:
            return [_merge(row) for row in await connection.fetch(sql.OF_TENANT, tenant, undone)]

    async def names(self, tenant: str, kind: NameKind) -> NamesUsed:
        """The names that the tenant's memories give now, under those that they were merged into."""
        used, seq = NamesUsed(), 0
        async with borrow(self._pool, "reading names") as connection:
            called = resolved((await _held(connection, tenant)).values())
            while rows := await connection.fetch(sql.NAMES, tenant, seq, _AT_ONCE):
                for row in rows:
                    said: list[str] = row["entities"]
                    if kind == "relation":
                        said = [one["relation"] for one in row["statements"]]
                    used.add(row["id"], [called.get((kind, name.casefold()), name) for name in said])
                seq = rows[-1]["seq"]
        return used


async def forget_merges(connection: Connection, tenant: str, ids: Sequence[int]) -> None:
    """Deletes merges whose names are forgotten, in the caller's transaction and under its lock on the outbox.

    What was merged into such a name is merged into what that was called; index and graph are told of all that is
    called otherwise, or stands for fewer names.
    """
    held = await _held(connection, tenant)
    before = resolved(held.values())
    gone = {(link.kind, link.alias) for number, link in held.items() if number in ids}
    led_on = {
        number: before[link.kind, link.alias]
        for number, link in held.items()
        if number not in ids and (link.kind, link.into.casefold()) in gone
    }
    after = resolved(
        link._replace(into=led_on.get(number, link.into)) for number, link in held.items() if number not in ids
    )
    await connection.execute(sql.LEAD_ON, tenant, list(led_on), list(led_on.values()))
    await connection.execute(sql.DELETE, tenant, list(ids))
    spellings = await _spellings(connection, tenant)
    await _tell(connection, tenant, before, after, spellings, None, {"undone": list(ids)})


async def _held(connection: Connection, tenant: str) -> dict[int, Link]:
    rows = await connection.fetch(sql.OF_TENANT, tenant, False)
    return {row["id"]: Link(row["kind"], row["alias"], row["merged_into"]) for row in rows}


async def _spellings(connection: Connection, tenant: str) -> dict[tuple[NameKind, str], list[str]]:
    """How the tenant's memories spell every name. Postgres folds case by its locale, so it is not asked to."""
    found: dict[tuple[NameKind, str], list[str]] = defaultdict(list)
    for row in await connection.fetch(sql.SPELLINGS, tenant):
        found[row["kind"], row["name"].casefold()].append(row["name"])
    return found


def _judged(
    wanted: WantedMerge, held: Mapping[int, Link], spellings: Mapping[tuple[NameKind, str], object]
) -> MergeVerdict | None:
    """Why a merge is none; None when it is one."""

    def conflict(why: str, number: int | None = None) -> MergeVerdict:
        return MergeVerdict(status="conflict", id=number, alias=wanted.alias, into=wanted.into, reason=why)

    for what, name in (("the name", wanted.alias), ("the name to merge into", wanted.into)):
        if not name.strip() or len(name) > MAX_NAME_CHARS or storable(name) != name:
            return conflict(f"{what} must have 1 to {MAX_NAME_CHARS} characters that can be stored")
    alias, into = wanted.alias.casefold(), wanted.into.casefold()
    if alias == into:
        return conflict("these are one name already: case makes no difference")
    by_alias = {(link.kind, link.alias): (number, link) for number, link in held.items()}
    if (wanted.kind, alias) in by_alias:
        number, link = by_alias[wanted.kind, alias]
        if link.into.casefold() == into:
            return MergeVerdict(status="unchanged", id=number, alias=wanted.alias, into=link.into)
        return conflict(f"it is merged into {link.into!r} already: undo {number} first", number)
    end = into
    while (wanted.kind, end) in by_alias:
        number, link = by_alias[wanted.kind, end]
        end = link.into.casefold()
        if end == alias:
            return conflict(f"{wanted.into!r} is merged into it: undo {number} first", number)
    if (wanted.kind, alias) not in spellings and (wanted.kind, into) not in spellings:
        return conflict("no memory gives either of these names")
    return None


async def _insert(connection: Connection, tenant: str, one: WantedMerge, actor: str | None) -> int:
    folded = (one.alias.casefold(), one.into.casefold())
    made = await connection.fetchval(
        sql.MERGE, tenant, one.kind, folded[0], one.alias, one.into, folded[1], dict(one.scores), actor
    )
    return int(made)


async def _tell(
    connection: Connection,
    tenant: str,
    before: _Called,
    after: _Called,
    spellings: Mapping[tuple[NameKind, str], Sequence[str]],
    actor: str | None,
    lineage: Mapping[str, JsonValue],
) -> tuple[int, int | None]:
    """Tells history and outbox of what is called otherwise now: how many memories, and the last position."""
    changed = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    ends = [(kind, alias, label, label.casefold()) for (kind, alias), label in after.items()]
    await connection.execute(sql.RESOLVE, tenant, *([one[place] for one in ends] for place in range(4)))
    entities, relations = (
        [spelling for name in changed if name[0] == kind for spelling in spellings.get(name, ())]
        for kind in ("entity", "relation")
    )
    ids = [row["id"] for row in await connection.fetch(sql.NAMING, tenant, entities, relations)]
    for start in range(0, len(ids), _AT_ONCE):  # no statement that a time-out would end
        await connection.execute(sql.ADD_HISTORY, tenant, ids[start : start + _AT_ONCE], actor, lineage)
    others = [
        await _one_giving(connection, tenant, spellings.get(end, ())) for end in _ends(changed, before, after)
    ]
    told = list(dict.fromkeys((*ids, *(name for name in others if name is not None))))
    position: int | None = None
    for start in range(0, len(told), _AT_ONCE):
        rows = await connection.fetch(record_sql.ENQUEUE, tenant, told[start : start + _AT_ONCE])
        position = max(row["position"] for row in rows)
    return len(ids), position


def _ends(changed: Iterable[tuple[NameKind, str]], before: _Called, after: _Called) -> list[tuple[NameKind, str]]:
    """The entities that more or fewer names stand for now."""
    labels = [(name[0], called[name]) for name in changed for called in (before, after) if name in called]
    return list(dict.fromkeys((kind, label.casefold()) for kind, label in labels if kind == "entity"))


async def _one_giving(connection: Connection, tenant: str, spellings: Sequence[str]) -> str | None:
    return await connection.fetchval(sql.ONE_NAMING, tenant, list(spellings)) if spellings else None


def _undone(number: int, known: Mapping[int, bool]) -> MergeVerdict:
    if number not in known:
        return MergeVerdict(status="missing", id=number, reason="this tenant has no such merge")
    return MergeVerdict(status="undone" if known[number] else "unchanged", id=number)


def _merge(row: Row) -> Merge:
    return Merge(
        id=row["id"],
        kind=row["kind"],
        alias=row["alias_label"],
        into=row["merged_into"],
        canonical=row["canonical"],
        scores=row["scores"],
        actor=row["actor"],
        at=row["at_s"],
        undone_at=row["undone_at_s"],
        undone_by=row["undone_by"],
    )
