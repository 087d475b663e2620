"""What is forgotten, and how it is removed from the record for good, with all rows about it; ids stay taken.

Which memories they were is kept until all is done: a run that was stopped finds them no more by what they said."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, LiteralString
from uuid import uuid4

from orion_recall.decisions.removal import DecisionsWanted, blank_decisions, count_decisions
from orion_recall.errors import RecordError
from orion_recall.memory.names.merges import forget_merges
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.record import delete
from orion_recall.postgres.pool import Connection, translate
from orion_recall.text.normal import storable

Kind = Literal["memory", "person", "session", "user", "tenant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one tenant wants forgotten. `values` are ids of memories, a person's names, a session or a user."""

    kind: Kind
    tenant: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: Kind, tenant: str, *values: str) -> Target:
        return cls(kind=kind, tenant=storable(tenant), values=tuple(storable(one) for one in values))

    @property
    def name_pattern(self) -> str | None:
        """A person's names as whole words, as a regular expression of Postgres; None for other kinds."""
        if self.kind != "person":
            return None
        # Letters, digits and `_` are words, here and in Postgres. In JSON a new line before a name is an "n".
        return rf"(^|\W|\\[bfnrt]|\\u[0-9a-f]{{4}})({'|'.join(map(_escaped, self.values))})(\W|$)"

    def selector(self, salt: str) -> str:
        """A salted hash of what is wanted, by which a run that was stopped is found again."""
        wanted = sorted(self.values) if self.kind == "memory" else self.values[:1]
        return hashlib.sha256(json.dumps([salt, self.kind, self.tenant, *wanted]).encode()).hexdigest()

    def decisions(self, ids: tuple[str, ...]) -> DecisionsWanted:
        """The decisions whose words go: those that quoted the memories, and by or about whom is forgotten."""
        asker = self.kind if self.kind in ("user", "session", "tenant") else None
        return DecisionsWanted(
            tenant=self.tenant,
            ids=() if self.kind == "tenant" else ids,
            naming=self.name_pattern,
            by=None if asker is None else (asker, self.values[0] if self.values else self.tenant),
        )

    @property
    def parameter(self) -> object:
        """The second parameter of a condition; the first is the tenant."""
        if self.kind == "memory":
            return list(self.values)
        return self.name_pattern or (self.values[0] if self.values else self.tenant)


# Conditions on `memories m`; $1 is the tenant, $2 the target's parameter.
# In a row's JSON every text of it is searched. A quotation mark in it is escaped, so it is in the name, too.
# Names are found however they are spelt, and in texts as they are given: "May" must not take every "may".
_CONDITIONS: dict[Kind, LiteralString] = {
    "memory": "m.id = ANY($2::text[])",
    "person": """(
        (to_jsonb(m) - ARRAY['search', 'tenant', 'id'])::text ~ $2
        OR jsonb_build_array(m.speaker, m.entities, m.given_entities, m.statements, m.title)::text ~* $2
    )""",
    "session": "m.session_id = $2",
    "user": "m.user_id = $2",
    # Those that were erased before still say whose they were, and when; their history by whom, and why.
    "tenant": """m.tenant = $2::text AND (
        m.content_hash <> '' OR m.ts IS NOT NULL
        OR num_nonnulls(m.session_id, m.user_id, m.agent_id, m.run_id, m.node_id) > 0
        OR EXISTS (SELECT FROM memory_history h WHERE h.tenant = m.tenant AND h.memory_id = m.id
                   AND (h.actor IS NOT NULL OR h.lineage ? 'reason'))
    )""",
}


def _escaped(name: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", json.dumps(name, ensure_ascii=False)[1:-1])


@dataclass(slots=True, kw_only=True)
class Place:
    """One row of the report: how much went from a place, what remains there, and until when."""

    place: str
    gone: int = 0
    what: str = ""
    remains: str = ""
    until: str = ""


@dataclass(slots=True, kw_only=True)
class Report:
    """What was forgotten, place by place. `unfinished` says why the command has to be run again."""

    kind: Kind
    tenant: str
    dry_run: bool
    memories: int = 0
    forget: int | None = None
    places: list[Place] = field(default_factory=list[Place])
    unfinished: list[str] = field(default_factory=list[str])

    def add(self, place: str, gone: int = 0, what: str = "", *, remains: str = "", until: str = "") -> None:
        self.places.append(Place(place=place, gone=gone, what=what, remains=remains, until=until))


_AT_ONCE, _FOUND_AT_ONCE = 200, 10_000
_MAY: LiteralString = """
SELECT has_table_privilege('memory_forgets', 'INSERT')
   AND has_column_privilege('memories', 'text', 'UPDATE')
   AND has_column_privilege('recall_decisions', 'query', 'UPDATE')
   AND has_table_privilege('memory_access', 'DELETE')
"""
_UNFINISHED: LiteralString = """
SELECT id, salt::text AS salt, selector, kind, begun_at FROM memory_forgets
WHERE tenant = $1 AND finished_at IS NULL ORDER BY id
"""
_BEGIN: LiteralString = """
INSERT INTO memory_forgets (tenant, kind, actor, salt, selector)
VALUES ($1, $2, $3, $4::text::uuid, $5) RETURNING id
"""
_FINISH: LiteralString = """
UPDATE memory_forgets SET finished_at = now(), salt = NULL, selector = NULL, counts = $2::jsonb WHERE id = $1
"""
_DROP_IDS: LiteralString = "DELETE FROM memory_forget_ids WHERE forget = $1"
_IDS: LiteralString = "SELECT memory_id FROM memory_forget_ids WHERE forget = $1 ORDER BY memory_id"
_REMEMBER: LiteralString = """
INSERT INTO memory_forget_ids (forget, memory_id) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING
"""
_NEXT: LiteralString = """
SELECT m.id FROM memories m WHERE m.tenant = $1 AND {condition}
AND NOT EXISTS (SELECT FROM memory_forget_ids f WHERE f.forget = $3 AND f.memory_id = m.id)
ORDER BY m.seq LIMIT $4
"""
# What was found is looked at again under the lock: it may have changed since.
_STILL: LiteralString = """
SELECT m.id FROM memories m WHERE m.tenant = $1 AND m.id = ANY($3::text[]) AND {condition} ORDER BY m.seq
"""
_COUNT: LiteralString = "SELECT count(*) FROM memories m WHERE m.tenant = $1 AND {condition}"
# `delete(erase=True)` has blanked what it says; here goes whose it was, and when.
_BLANK: LiteralString = """
UPDATE memories SET session_id = NULL, node_id = NULL, user_id = NULL, agent_id = NULL, run_id = NULL,
    occurred_at = NULL, occurred_until = NULL, mentioned_at = NULL, extracted_by = 'light'
WHERE tenant = $1 AND id = ANY($2::text[])
"""
_BLANK_HISTORY: LiteralString = """
UPDATE memory_history SET before = CASE WHEN before IS NULL THEN NULL ELSE '{"erased": true}'::jsonb END,
    actor = NULL, lineage = lineage - 'reason'
WHERE tenant = $1 AND memory_id = ANY($2::text[])
"""
# What is about the memories, in one statement each; $1 is the tenant, $2 the forgetting.
_AROUND: Mapping[str, LiteralString] = {
    "access counts": """
        DELETE FROM memory_access WHERE tenant = $1
        AND id IN (SELECT memory_id FROM memory_forget_ids WHERE forget = $2)""",
    "extraction queue": """
        DELETE FROM memory_extractions WHERE tenant = $1
        AND memory_id IN (SELECT memory_id FROM memory_forget_ids WHERE forget = $2)""",
    "request receipts": """
        DELETE FROM memory_requests r WHERE tenant = $1 AND EXISTS (
            SELECT FROM jsonb_array_elements(
                CASE jsonb_typeof(r.receipt -> 'results') WHEN 'array' THEN r.receipt -> 'results' END) AS one
            JOIN memory_forget_ids f ON f.forget = $2 AND f.memory_id = one ->> 'id')""",
    "feedback": """
        UPDATE recall_feedback b SET note = NULL, actor = NULL
        WHERE tenant = $1 AND (note IS NOT NULL OR actor IS NOT NULL) AND EXISTS (
            SELECT FROM memory_forget_ids f WHERE f.forget = $2 AND (
                f.memory_id = ANY(b.used || b.wrong) OR EXISTS (
                    SELECT FROM recall_decisions d WHERE d.tenant = $1
                    AND d.selected_ids @> jsonb_build_array(f.memory_id)
                    AND (d.id::text = b.decision_id OR d.corr_id = b.corr_id))))""",
}
_OTHER_HISTORY: LiteralString = """
UPDATE memory_history SET before = '{"erased": true}', lineage = lineage - 'reason'
WHERE tenant = $1 AND before <> '{"erased": true}' AND
"""
_STEPS_BY: LiteralString = """
UPDATE memory_history SET actor = CASE WHEN actor ~* $2 THEN NULL ELSE actor END,
    lineage = CASE WHEN lineage ->> 'reason' ~* $2 THEN lineage - 'reason' ELSE lineage END
WHERE tenant = $1 AND (actor ~* $2 OR lineage ->> 'reason' ~* $2)
"""
_NO_NOTES: LiteralString = "UPDATE recall_feedback SET note = NULL, actor = NULL WHERE tenant = $1 AND "
# What else the target says, of its tenant ($1) and parameter ($2).
_FURTHER: Mapping[Kind, Sequence[tuple[str, LiteralString]]] = {
    "session": [("history of others", _OTHER_HISTORY + "before ->> 'session_id' = $2")],
    "user": [("history of others", _OTHER_HISTORY + "before ->> 'user_id' = $2")],
    "person": [
        ("history of others", _OTHER_HISTORY + "before::text ~ $2"),
        ("history of others", _STEPS_BY),
        ("feedback", _NO_NOTES + "(note ~* $2 OR actor ~* $2)"),
    ],
    "tenant": [
        ("request receipts", "DELETE FROM memory_requests WHERE tenant = $1 AND tenant = $2"),
        ("feedback", _NO_NOTES + "tenant = $2 AND num_nonnulls(note, actor) > 0"),
        ("merged names", "DELETE FROM entity_merges WHERE tenant = $1 AND tenant = $2"),
    ],
}
_PERSON_MERGES: LiteralString = """
SELECT id FROM entity_merges WHERE tenant = $1
AND (alias_label ~* $2 OR alias ~* $2 OR merged_into ~* $2 OR canonical ~* $2)
"""
# Their answers repeat decisions as they were. Who still waits for one is told to ask again.
_RECALLS_AGAIN: LiteralString = "DELETE FROM copy_requests WHERE task = 'recall'"
# Every name that the memories give, and those of them that have merges.
_MERGED_NAMES: LiteralString = """
WITH given AS (
    SELECT DISTINCT lower(name) AS name FROM memories m CROSS JOIN LATERAL (
        SELECT unnest(m.entities) UNION ALL SELECT m.speaker
        UNION ALL SELECT unnest(ARRAY[told ->> 'subject', told ->> 'relation', told ->> 'object'])
        FROM jsonb_array_elements(m.statements) AS told
    ) AS names (name) WHERE m.tenant = $1 AND m.id = ANY($2::text[])
)
SELECT DISTINCT name FROM given JOIN entity_merges e ON e.tenant = $1
    AND given.name IN (lower(e.alias_label), lower(e.merged_into), lower(e.canonical))
"""
# Of these the merges of names that no memory gives any more. A name that others are merged into stays with them.
_UNUSED_MERGES: LiteralString = """
SELECT e.id FROM entity_merges e WHERE e.tenant = $1
AND (lower(e.alias_label) = ANY($2::text[]) OR lower(e.merged_into) = ANY($2::text[]))
AND NOT EXISTS (
    SELECT FROM memories m WHERE m.tenant = $1 AND m.content_hash <> '' AND (
        EXISTS (SELECT FROM unnest(m.entities || m.speaker) AS name WHERE lower(name) = lower(e.alias_label))
        OR EXISTS (SELECT FROM jsonb_array_elements(m.statements) AS told WHERE lower(e.alias_label) IN (
            lower(told ->> 'subject'), lower(told ->> 'relation'), lower(told ->> 'object'))))
)
"""
_OF_OTHERS: LiteralString = """
SELECT corr_id FROM recall_decisions WHERE corr_id = ANY($1::text[])
GROUP BY corr_id HAVING bool_and(tenant IS NOT NULL AND tenant <> $2)
"""
_ALIASES: LiteralString = """
SELECT DISTINCT name FROM entity_merges e, unnest(ARRAY[e.alias_label, e.merged_into, e.canonical]) AS name
WHERE e.tenant = $1 AND e.kind = 'entity' AND e.undone_at IS NULL AND (
    e.alias = $2 OR e.canonical_folded = $2 OR lower(e.merged_into) = $2)
"""


class ForgetRecord:
    """One forgetting in the record, over a connection of its own; `gone` counts by place. RecordError."""

    def __init__(self, connection: Connection, target: Target) -> None:
        self._connection, self.target = connection, target
        self.forget = 0
        self._found: list[str] = []
        self.gone: Counter[str] = Counter()

    async def with_aliases(self) -> Target:
        """The target; a person under all names that were merged with it. RecordError: this login may not forget."""
        target = self.target
        with translate("reading what may be forgotten"):
            if not await self._connection.fetchval(_MAY):
                raise RecordError(
                    "this login may not forget: let ORION_POSTGRES_DSN name the schema's owner, or a worker's "
                    "login (orion_worker) after `orion-recall migrate`"
                )
            if target.kind == "person":
                rows = await self._connection.fetch(_ALIASES, target.tenant, target.values[0].casefold())
                names = dict.fromkeys((*target.values, *(row["name"] for row in rows)))
                self.target = replace(target, values=tuple(names))
        return self.target

    async def count(self) -> tuple[int, list[str], int]:
        """How many memories would be forgotten, their first ids, and how many decisions would be blanked."""
        target = self.target
        with translate("counting what would be forgotten"):
            query = _COUNT.replace("{condition}", _CONDITIONS[target.kind])
            memories = int(await self._connection.fetchval(query, target.tenant, target.parameter))
            ids = await self._ids_of(_NEXT, 0, 100_000)
            decisions = await count_decisions(self._connection, target.decisions(tuple(ids)))
        return memories, ids, decisions

    async def begin(self, actor: str | None) -> list[str]:
        others: list[str] = []
        with translate("beginning to forget"):
            for row in await self._connection.fetch(_UNFINISHED, self.target.tenant):
                if row["selector"] == self.target.selector(row["salt"]):
                    self.forget = row["id"]
                else:
                    others.append(f"{row['kind']}, begun {row['begun_at']:%Y-%m-%d %H:%M} UTC")
            if not self.forget:
                target, salt = self.target, str(uuid4())
                given = target.tenant, target.kind, actor, salt, target.selector(salt)
                self.forget = await self._connection.fetchval(_BEGIN, *given)
        return others

    async def next_batch(self) -> Mapping[str, int] | None:
        """Blanks the next memories in one transaction: their positions in the outbox; None when all are."""
        target, connection = self.target, self._connection
        with translate("forgetting memories"):
            if not self._found:
                self._found = await self._ids_of(_NEXT, self.forget, _FOUND_AT_ONCE)
            if not self._found:
                return None
            some, self._found = self._found[:_AT_ONCE], self._found[_AT_ONCE:]
            async with connection.transaction():
                await connection.execute(record_sql.LOCK_OUTBOX)
                ids = await self._ids_of(_STILL, some)
                merged = await connection.fetch(_MERGED_NAMES, target.tenant, ids)
                _, positions = await delete(connection, target.tenant, ids, actor=None, why=None, erase=True)
                for statement in (_BLANK, _BLANK_HISTORY):
                    await connection.execute(statement, target.tenant, ids)
                await connection.execute(_REMEMBER, self.forget, ids)
                if merged:
                    await self._forget_merges(_UNUSED_MERGES, [row["name"] for row in merged])
        self.gone["memories"] += len(ids)
        return positions

    async def clear_around(self) -> None:
        """Removes all rows about the memories, and what else the target says."""
        target = self.target
        with translate("forgetting what is about the memories"):
            around = [(place, statement, self.forget) for place, statement in _AROUND.items()]
            further = [(*one, target.parameter) for one in _FURTHER.get(target.kind, ())]
            for place, statement, value in (*around, *further):
                done = await self._connection.execute(statement, target.tenant, value)
                self.gone[place] += int(done.rpartition(" ")[2])
            if target.kind == "person":
                async with self._connection.transaction():
                    await self._connection.execute(record_sql.LOCK_OUTBOX)
                    await self._forget_merges(_PERSON_MERGES, target.name_pattern)

    async def blank_decisions(self) -> None:
        ids = await self.ids()
        with translate("blanking decisions"):
            self.gone["decisions"] += await blank_decisions(self._connection, self.target.decisions(ids))
            await self._connection.execute(_RECALLS_AGAIN)

    async def ids(self) -> tuple[str, ...]:
        with translate("reading what is forgotten"):
            return tuple(row["memory_id"] for row in await self._connection.fetch(_IDS, self.forget))

    async def of_others(self, correlation_ids: Sequence[str]) -> frozenset[str]:
        """Those of some correlation ids that only recalls of other tenants had."""
        if not correlation_ids:
            return frozenset()
        with translate("reading decisions"):
            rows = await self._connection.fetch(_OF_OTHERS, list(correlation_ids), self.target.tenant)
        return frozenset(row["corr_id"] for row in rows)

    async def finish(self, counts: Mapping[str, int]) -> None:
        """Writes the counts; from now on nothing says what was forgotten."""
        with translate("finishing"):
            async with self._connection.transaction():
                await self._connection.execute(_DROP_IDS, self.forget)
                await self._connection.execute(_FINISH, self.forget, dict(counts))

    async def _forget_merges(self, query: LiteralString, value: object) -> None:
        ids = [row["id"] for row in await self._connection.fetch(query, self.target.tenant, value)]
        if ids:
            await forget_merges(self._connection, self.target.tenant, ids)
        self.gone["merged names"] += len(ids)

    async def _ids_of(self, query: LiteralString, *values: object) -> list[str]:
        given = query.replace("{condition}", _CONDITIONS[self.target.kind])
        rows = await self._connection.fetch(given, self.target.tenant, self.target.parameter, *values)
        return [row["id"] for row in rows]
