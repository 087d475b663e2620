"""Stated successions: a newer memory takes the place of an older one because somebody says so.

Three may say so: a message (`supersedes`), a person (`orion-recall memory succeeds`), and the extractor `llm` where
one is configured. Nothing is guessed from words, numbers or dates: two door codes or two tickets are two things.
The copies are told of both ends. What reads and writes them raises RecordError while Postgres is away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, LiteralString, NamedTuple

from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import Connection, Pool, borrow, fetched
from orion_recall.text.normal import memory_key, storable
from orion_recall.values import Memory, Statement, SuccessionLink, SuccessionReason

SuccessionState = Literal["stated", "undone"]
_MOST_JUDGED = 200

# Live memories of the same owner about one of the subjects, by the given extractor.
_OF_SUBJECTS: LiteralString = """
SELECT m.* FROM memories o JOIN memories m ON m.tenant = o.tenant AND m.id <> o.id AND m.live
    AND m.user_id IS NOT DISTINCT FROM o.user_id AND m.agent_id IS NOT DISTINCT FROM o.agent_id
WHERE o.tenant = $1 AND o.id = $2 AND m.entities && $3::text[] AND m.extracted_by = $4
ORDER BY m.seq DESC LIMIT $5
"""

# What the extractor states now of a memory; a person's word stays. What it read in a newer memory alone, the only
# evidence then, stays as well, until the older one is changed.
_NO_MORE_STATED: LiteralString = """
DELETE FROM memory_successions e USING memories o
WHERE e.tenant = $1 AND (e.newer = $2 OR e.older = $2) AND e.state = 'stated' AND e.reason = 'by_extractor'
    AND NOT EXISTS (SELECT FROM unnest($3::text[], $4::text[]) AS g (newer, older)
        WHERE g.newer = e.newer AND g.older = e.older)
    AND o.tenant = e.tenant AND o.id = e.older
    AND (e.newer = $2 OR e.evidence <> ARRAY[e.newer] OR o.updated_at > e.at)
RETURNING e.newer, e.older
"""
_OF_THE_SAME_OWNER: LiteralString = """
SELECT m.* FROM memories o JOIN memories m ON m.tenant = o.tenant AND m.id = ANY($3::text[]) AND m.live
    AND m.user_id IS NOT DISTINCT FROM o.user_id AND m.agent_id IS NOT DISTINCT FROM o.agent_id
WHERE o.tenant = $1 AND o.id = $2
"""
_STATED: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, reason, evidence)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (tenant, newer, older) DO NOTHING
RETURNING newer
"""

# A memory that supersedes others takes their successions over.
_INHERIT: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, reason, evidence)
SELECT tenant, $3, older, max(probability), 'supersedes', array_agg(newer ORDER BY newer) FROM memory_successions
WHERE tenant = $1 AND newer = ANY($2::text[]) AND older <> $3 AND state <> 'undone' GROUP BY tenant, older
ON CONFLICT (tenant, newer, older) DO NOTHING
RETURNING older
"""

_BY_PERSON: LiteralString = """
INSERT INTO memory_successions (tenant, newer, older, probability, state, reason, actor, changed_at)
VALUES ($1, $2, $3, 1, $4, 'by_person', $5, now())
ON CONFLICT (tenant, newer, older) DO UPDATE
    SET state = excluded.state, probability = excluded.probability, reason = excluded.reason, evidence = '{}',
        actor = excluded.actor, changed_at = now()
"""

# All that comes after the given memory, and all that comes before it. Each once: of a person's many homes every one
# replaces all before it, and there are more chains than can be counted.
_REACHED: LiteralString = """
WITH RECURSIVE reached AS (
    SELECT e.{far} AS id FROM memory_successions e
    WHERE e.tenant = $1 AND e.{near} = $2 AND e.state <> 'undone'
    UNION
    SELECT e.{far} FROM reached r JOIN memory_successions e ON e.tenant = $1 AND e.{near} = r.id
    WHERE e.state <> 'undone'
)
SELECT id FROM reached
"""
_LATER: LiteralString = _REACHED.format(near="older", far="newer")
_EARLIER: LiteralString = _REACHED.format(near="newer", far="older")

_SUCCEEDED: LiteralString = """
SELECT newer, older FROM memory_successions
WHERE tenant = $1 AND newer = ANY($2::text[]) AND state <> 'undone' ORDER BY newer, older
"""

_STATE: LiteralString = """
SELECT state FROM memory_successions
WHERE tenant = $1 AND newer = $2 AND older = $3 AND (state = 'undone' OR reason = 'by_person')
"""

# Both directions of the given memories, where both ends are live; `at` is when the newer one was said.
_LINKS: LiteralString = """
SELECT e.tenant, e.newer, e.older, e.probability, e.reason, e.evidence,
    extract(epoch FROM coalesce(n.ts, n.recorded_at))::float8 AS at
FROM (
    SELECT s.* FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    JOIN memory_successions s ON s.tenant = given.tenant AND s.newer = given.id
    UNION
    SELECT s.* FROM unnest($1::text[], $2::text[]) AS given (tenant, id)
    JOIN memory_successions s ON s.tenant = given.tenant AND s.older = given.id
) AS e
JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer AND n.live
JOIN memories o ON o.tenant = e.tenant AND o.id = e.older AND o.live
WHERE e.state <> 'undone'
ORDER BY at, e.newer, e.older
"""

_OF_MEMORY: LiteralString = """
SELECT e.newer, e.older, e.probability, e.state, e.reason, e.evidence, e.actor,
    extract(epoch FROM e.at)::float8 AS at, extract(epoch FROM e.changed_at)::float8 AS changed_at,
    n.text AS newer_text, o.text AS older_text
FROM memory_successions e
LEFT JOIN memories n ON n.tenant = e.tenant AND n.id = e.newer
LEFT JOIN memories o ON o.tenant = e.tenant AND o.id = e.older
WHERE e.tenant = $1 AND (e.newer = $2 OR e.older = $2) ORDER BY e.at, e.newer, e.older
"""

# The other ends of the successions of the given memories.
OTHER_ENDS: LiteralString = """
SELECT newer AS id FROM memory_successions WHERE tenant = $1 AND older = ANY($2::text[])
UNION SELECT older FROM memory_successions WHERE tenant = $1 AND newer = ANY($2::text[])
"""

ERASE: LiteralString = """
DELETE FROM memory_successions WHERE tenant = $1 AND (newer = ANY($2::text[]) OR older = ANY($2::text[]))
"""
ERASE_FORMER: LiteralString = """
DELETE FROM memory_succession_history WHERE tenant = $1 AND (newer = ANY($2::text[]) OR older = ANY($2::text[]))
"""


ONE_VALUED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("lives in", "lives at", "moved to"), "home"),
    **dict.fromkeys(("works at", "works for"), "employer"),
    **dict.fromkeys(("married to", "is married to"), "spouse"),
    "reports to": "manager",
}
"""Relations of which one subject has one object at a time; those of one kind say the same."""
STATING: Final = "llm"
"""The extractor whose statements count: those of rules are too often of something else."""


def is_stated_by_extractor(older: Memory, newer: Memory) -> bool:
    """Whether both state one object of a one-valued relation of the same subject, and not the same one."""
    if older.extracted_by != STATING or newer.extracted_by != STATING:
        return False
    before, after = values_of(older.statements), values_of(newer.statements)
    for about in before.keys() & after.keys():
        (was, *others), (now, *further) = before[about], after[about]
        # "Lisbon" and "Lisbon, Portugal" are one place.
        if not others and not further and was not in now and now not in was:
            return True
    return False


def values_of(statements: Sequence[Statement]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for one in statements:
        if (kind := ONE_VALUED.get(one.relation.casefold())) is not None:
            found[one.subject.casefold(), kind][one.object.casefold()] = None
    return {about: list(objects) for about, objects in found.items()}


class SetByPerson(NamedTuple):
    """What came of a person's word, and the ids that are `missing`, or the chain by which older succeeds newer."""

    state: Literal["stated", "undone", "unchanged", "missing", "same", "cycle"]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSuccession:
    """A succession as the record holds it; `at` and `changed_at` in epoch seconds."""

    newer: str
    older: str
    probability: float
    state: SuccessionState
    reason: SuccessionReason
    evidence: Sequence[str]
    actor: str | None
    at: float
    changed_at: float | None
    newer_text: str | None
    older_text: str | None


async def by_person(
    pool: Pool, tenant: str, newer: str, older: str, *, undo: bool = False, actor: str | None = None
) -> SetByPerson:
    """Says that one memory succeeds another, or that it does not. Both must be live; a cycle is refused."""
    if newer == older:
        return SetByPerson("same", (newer,))
    tenant, newer, older = storable(tenant), storable(newer), storable(older)
    wanted: SuccessionState = "undone" if undo else "stated"
    async with borrow(pool, "writing a succession") as connection, connection.transaction():
        await connection.execute(record_sql.LOCK_OUTBOX)
        rows = await connection.fetch(record_sql.GET, tenant, [newer, older])
        live = {row["id"] for row in rows if row["live"]}
        if missing := tuple(name for name in (newer, older) if name not in live):
            return SetByPerson("missing", missing)
        if await connection.fetchval(_STATE, tenant, newer, older) == wanted:
            return SetByPerson("unchanged", (newer, older))
        if not undo and (chain := await _chain_back(connection, tenant, newer, older)):
            return SetByPerson("cycle", chain)
        await connection.execute(_BY_PERSON, tenant, newer, older, wanted, actor)
        await _enqueue(connection, tenant, (newer, older))
    return SetByPerson(wanted, (newer, older))


async def _chain_back(connection: Connection, tenant: str, newer: str, older: str) -> tuple[str, ...]:
    """The shortest chain from the older memory over what it succeeds to the newer one; () where there is none."""
    after, level = dict[str, str](), [older]
    while level and newer not in after:
        rows = await connection.fetch(_SUCCEEDED, tenant, level)
        level = [name for name in dict.fromkeys(row["older"] for row in rows) if name not in after]
        after = {row["older"]: row["newer"] for row in reversed(rows)} | after
    chain = [newer]
    while newer in after and chain[-1] != older:
        chain.append(after[chain[-1]])
    return tuple(reversed(chain)) if newer in after else ()


async def of_memory(pool: Pool, tenant: str, memory_id: str) -> list[HeldSuccession]:
    """Every succession of one memory, undone ones as well, oldest first."""
    rows = await fetched(pool, "reading successions", _OF_MEMORY, storable(tenant), storable(memory_id))
    return [HeldSuccession(**dict(row)) for row in rows]


async def write_stated(connection: Connection, memory: Memory, replaces: Sequence[str] = ()) -> None:
    """Writes what the extractor states of a memory that was just extracted, and takes back what holds no more.

    `replaces` are the ids of older memories that are true no more by what it says. What a person said stays. In the
    caller's transaction and under its lock on the outbox.
    """
    tenant, subjects = memory.tenant, {subject for subject, _ in values_of(memory.statements)}
    named = [name for name in memory.entities if name.casefold() in subjects]
    stated: dict[tuple[str, str], list[str]] = {}
    if replaces:
        for row in await connection.fetch(_OF_THE_SAME_OWNER, tenant, memory.id, list(replaces)):
            other = record_sql.to_memory(row)
            if _said_before(other, memory):
                stated[memory.id, other.id] = [memory.id]
    if named and memory.extracted_by == STATING:
        for row in await connection.fetch(_OF_SUBJECTS, tenant, memory.id, named, STATING, _MOST_JUDGED):
            other = record_sql.to_memory(row)
            for older, newer in ((memory, other), (other, memory)):
                if _said_before(older, newer) and is_stated_by_extractor(older, newer):
                    stated[newer.id, older.id] = [older.id, newer.id]
    pairs = [newer for newer, _ in stated], [older for _, older in stated]
    gone = await connection.fetch(_NO_MORE_STATED, tenant, memory.id, *pairs)
    changed = [row[end] for row in gone for end in ("newer", "older")]
    for end, reached in ((0, _LATER), (1, _EARLIER)):
        pairs = [pair for pair in stated if pair[end] == memory.id]
        looped = {row["id"] for row in await connection.fetch(reached, tenant, memory.id)} if pairs else set[str]()
        for pair in pairs:
            given = tenant, *pair, 1.0, "by_extractor", stated[pair]
            if pair[1 - end] not in looped and await connection.fetchval(_STATED, *given) is not None:
                changed += pair
    await _enqueue(connection, tenant, changed)


def _said_before(older: Memory, newer: Memory) -> bool:
    """Of two of the same time, or of one without, it is not known which is older."""
    return older.ts is not None and newer.ts is not None and older.ts < newer.ts


async def inherit(connection: Connection, tenant: str, before: Sequence[str], by: str) -> None:
    """The memory `by` takes over what those succeed that it supersedes, in the caller's transaction."""
    if before and (rows := await connection.fetch(_INHERIT, tenant, list(before), by)):
        await _enqueue(connection, tenant, [by, *(row["older"] for row in rows)])


_Links = Mapping[tuple[str, str], Sequence[SuccessionLink]]


async def read_links(connection: Connection, memories: Sequence[Memory]) -> tuple[_Links, _Links]:
    """By tenant and id: the older memories that a memory succeeds; and the newer ones that succeed it."""
    older: dict[tuple[str, str], list[SuccessionLink]] = defaultdict(list)
    newer: dict[tuple[str, str], list[SuccessionLink]] = defaultdict(list)
    given = [memory.tenant for memory in memories], [memory.id for memory in memories]
    for row in await connection.fetch(_LINKS, *given) if memories else ():
        tenant = row["tenant"]
        for name, other, links in ((row["newer"], row["older"], older), (row["older"], row["newer"], newer)):
            link = SuccessionLink(
                key=memory_key(tenant, other),
                id=other,
                at=row["at"],
                reason=row["reason"],
                probability=round(float(row["probability"]), 3),
                evidence=tuple(row["evidence"]),
            )
            links[tenant, name].append(link)
    return older, newer


async def _enqueue(connection: Connection, tenant: str, ids: Iterable[str]) -> None:
    if names := sorted(set(ids)):
        await connection.fetch(record_sql.ENQUEUE, tenant, names)
