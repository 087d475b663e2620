"""Merged names, applied to the memories that copies get: every alias is replaced by the name it was merged into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, LiteralString, NamedTuple

from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.successions import read_links
from orion_recall.postgres.pool import Connection, Row
from orion_recall.values import Change, Memory, MergedName, Statement

NameKind = Literal["entity", "relation"]

# The merges into the given names, and into the names that these were merged into.
_IN_FORCE: LiteralString = """
WITH given AS (
    SELECT DISTINCT * FROM unnest($1::text[], $2::text[], $3::text[]) AS name (tenant, kind, folded)
), ends AS (
    SELECT tenant, kind, folded FROM given
    UNION
    SELECT m.tenant, m.kind, m.canonical_folded FROM given g
    JOIN entity_merges m ON m.tenant = g.tenant AND m.kind = g.kind AND m.alias = g.folded AND m.undone_at IS NULL
)
SELECT m.tenant, m.kind, m.alias, m.alias_label, m.canonical, m.canonical_folded FROM ends e
JOIN entity_merges m
    ON m.tenant = e.tenant AND m.kind = e.kind AND m.canonical_folded = e.folded AND m.undone_at IS NULL
ORDER BY m.id
"""


class NameKey(NamedTuple):
    """A case-folded name in its tenant."""

    tenant: str
    kind: NameKind
    folded: str


@dataclass(frozen=True, slots=True)
class Aliases:
    """The merges in force for some memories: the name of each alias, and the aliases of each name."""

    called: Mapping[NameKey, str] = field(default_factory=dict[NameKey, str])
    standing: Mapping[NameKey, MergedName] = field(default_factory=dict[NameKey, MergedName])

    def applied(self, memory: Memory) -> Memory:
        """The memory with merged names; equal statements come once."""
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
        names = (*memory.entities, *((memory.speaker,) if memory.speaker else ()))
        shown = {self._called(memory.tenant, "entity", name).casefold() for name in names}
        keys = [NameKey(memory.tenant, "entity", folded) for folded in sorted(shown)]
        return tuple(self.standing[key] for key in keys if key in self.standing)

    def _called(self, tenant: str, kind: NameKind, name: str) -> str:
        return self.called.get(NameKey(tenant, kind, name.casefold()), name)

    def _end(self, tenant: str, name: str, spelling: Mapping[str, str]) -> str:
        label = self._called(tenant, "entity", name)
        return spelling.get(label.casefold(), label)


async def read_aliases(connection: Connection, memories: Sequence[Memory]) -> Aliases:
    """The merges in force for the memories' names, with all other aliases of the same names."""
    names = list(dict.fromkeys(name for memory in memories for name in _names(memory)))
    if not names:
        return Aliases()
    tenants, kinds, folded = (list(part) for part in zip(*names, strict=True))
    rows = await connection.fetch(_IN_FORCE, tenants, kinds, folded)
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
    """Rows of `CHANGES` or `CHANGES_OF` as changes, with merged names and successions."""
    memories = [record_sql.to_memory(row) for row in rows]
    aliases = await read_aliases(connection, memories)
    older, newer = await read_links(connection, memories)
    return [
        Change(
            position=row["position"],
            memory=aliases.applied(memory),
            previous=record_sql.to_neighbour(row, "previous"),
            following=record_sql.to_neighbour(row, "following"),
            merged=aliases.merged_in(memory),
            succeeds=tuple(older.get((memory.tenant, memory.id), ())),
            succeeded_by=tuple(newer.get((memory.tenant, memory.id), ())),
        )
        for row, memory in zip(rows, memories, strict=True)
    ]
