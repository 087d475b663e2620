"""Merged names as the copies are told of them: what a memory says under the names that others were merged into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from orion_recall.memory.names import merges_sql as sql
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import Connection
from orion_recall.postgres.pool import Record as Row
from orion_recall.values import Change, Memory, MergedName, Statement

NameKind = Literal["entity", "relation"]


class NameKey(NamedTuple):
    """A name in its tenant, case folded."""

    tenant: str
    kind: NameKind
    folded: str


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


@dataclass(frozen=True, slots=True)
class Aliases:
    """The merges in force that concern some memories: what aliases are called, and what each name stands for."""

    called: Mapping[NameKey, str] = field(default_factory=dict[NameKey, str])
    standing: Mapping[NameKey, MergedName] = field(default_factory=dict[NameKey, MergedName])

    def applied(self, memory: Memory) -> Memory:
        """The memory under the names that others were merged into; what comes to the same is told once.

        A statement whose two ends were merged says nothing any more. The speaker stays as told.
        """
        if not self.called:
            return memory
        spelling: dict[str, str] = {}
        for name in memory.entities:
            label = self._called(memory.tenant, "entity", name)
            spelling.setdefault(label.casefold(), label)
        statements: dict[Statement, None] = {}
        for one in memory.statements:
            told = replace(
                one,
                subject=self._end(memory.tenant, one.subject, spelling),
                relation=self._called(memory.tenant, "relation", one.relation),
                object=self._end(memory.tenant, one.object, spelling),
            )
            if told.subject.casefold() != told.object.casefold():
                statements[told] = None
        return replace(memory, entities=tuple(spelling.values()), statements=tuple(statements))

    def merged_in(self, memory: Memory) -> tuple[MergedName, ...]:
        """Those of the memory's entities that others were merged into, by their names."""
        if not self.standing:
            return ()
        found: dict[str, MergedName] = {}
        for name in (*memory.entities, *((memory.speaker,) if memory.speaker else ())):
            label = self._called(memory.tenant, "entity", name)
            one = self.standing.get(NameKey(memory.tenant, "entity", label.casefold()))
            if one is not None:
                found[label.casefold()] = one
        return tuple(found[folded] for folded in sorted(found))

    def _called(self, tenant: str, kind: NameKind, name: str) -> str:
        return self.called.get(NameKey(tenant, kind, name.casefold()), name)

    def _end(self, tenant: str, name: str, spelling: Mapping[str, str]) -> str:
        label = self._called(tenant, "entity", name)
        return spelling.get(label.casefold(), label)


async def read_aliases(connection: Connection, memories: Sequence[Memory]) -> Aliases:
    """The merges in force that concern the memories, with all that was merged into the same names."""
    names = list(dict.fromkeys(name for memory in memories for name in _names(memory)))
    if not names:
        return Aliases()
    tenants, kinds, folded = (list(part) for part in zip(*names, strict=True))
    rows = await connection.fetch(sql.IN_FORCE, tenants, kinds, folded)
    called: dict[NameKey, str] = {}
    standing: dict[NameKey, MergedName] = {}
    for row in rows:
        called[NameKey(row["tenant"], row["kind"], row["alias"])] = row["canonical"]
        key = NameKey(row["tenant"], row["kind"], row["canonical_folded"])
        known = standing[key].aliases if key in standing else ()
        standing[key] = MergedName(label=row["canonical"], aliases=tuple(sorted((*known, row["alias_label"]))))
    return Aliases(called, standing)


def _names(memory: Memory) -> Iterable[NameKey]:
    ends = (end for one in memory.statements for end in (one.subject, one.object))
    for name in (*memory.entities, *ends, *((memory.speaker,) if memory.speaker else ())):
        yield NameKey(memory.tenant, "entity", name.casefold())
    for one in memory.statements:
        yield NameKey(memory.tenant, "relation", one.relation.casefold())


async def as_changes(connection: Connection, rows: Sequence[Row]) -> list[Change]:
    """The steps that rows of `CHANGES` or `CHANGES_OF` tell, under the names that are in force now."""
    memories = [record_sql.to_memory(row) for row in rows]
    aliases = await read_aliases(connection, memories)
    return [
        Change(
            position=row["position"],
            memory=aliases.applied(memory),
            previous=record_sql.to_neighbour(row, "previous"),
            following=record_sql.to_neighbour(row, "following"),
            merged=aliases.merged_in(memory),
        )
        for row, memory in zip(rows, memories, strict=True)
    ]
