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

# Of some tenants. Few are made, so all of them are read.
IN_FORCE: LiteralString = """
SELECT * FROM entity_merges WHERE tenant = ANY($1::text[]) AND undone_at IS NULL ORDER BY id
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


async def read_aliases(connection: Connection, tenants: Iterable[str]) -> Aliases:
    """The merges in force, with all aliases of each name."""
    called: dict[NameKey, str] = {}
    standing: dict[NameKey, MergedName] = {}
    for row in await connection.fetch(IN_FORCE, list(dict.fromkeys(tenants))):
        called[NameKey(row["tenant"], row["kind"], row["alias"])] = row["canonical"]
        key = NameKey(row["tenant"], row["kind"], row["canonical_folded"])
        known = standing[key].aliases if key in standing else ()
        standing[key] = MergedName(label=row["canonical"], aliases=tuple(sorted((*known, row["alias_label"]))))
    return Aliases(called, standing)


async def as_changes(connection: Connection, rows: Sequence[Row]) -> list[Change]:
    """Rows of `CHANGES` or `CHANGES_OF` as changes, with merged names and successions."""
    memories = [record_sql.to_memory(row) for row in rows]
    aliases = await read_aliases(connection, (memory.tenant for memory in memories))
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
