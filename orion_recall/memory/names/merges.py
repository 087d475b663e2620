"""Merged names: proposals for people to judge, merges, and their undoing.

The record keeps what the memories say. A merge is a row of its own, and index and graph get every memory that gives
the name again: they show it under the name that it was merged into. A name that others are merged into is merged
into none itself. Writing statements run under the outbox's lock.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, LiteralString

from rapidfuzz import fuzz

from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.aliases import NameKind
from orion_recall.models.embedder import Embedder
from orion_recall.postgres.pool import Connection, Pool, Row, borrow, fetched
from orion_recall.text.normal import storable, whole_words
from orion_recall.values import JsonValue

_MIN_STRING, _MIN_COSINE, _BY_INITIAL = 0.85, 0.8, 95.0
_LARGE, _WINDOW, _EDGE = 40, 8, 4
_NUMBER = re.compile(r"\d+")


class NamesUsed:
    """Names, case folded, with their spellings and the memories that give them."""

    def __init__(self) -> None:
        self._spellings: dict[str, Counter[str]] = defaultdict(Counter)
        self.given_in: dict[str, list[str]] = defaultdict(list)

    def add(self, memory_id: str, names: Iterable[str]) -> None:
        for folded, label in {name.casefold(): name for name in names}.items():
            self._spellings[folded][label] += 1
            self.given_in[folded].append(memory_id)

    def label(self, folded: str) -> str:
        """The spelling that most memories have, the first by alphabet of several."""
        return min(self._spellings[folded].items(), key=lambda one: (-one[1], one[0]))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed merge of two names; the counts and examples are of the memories that give each."""

    id: str
    kind: NameKind
    alias: str
    into: str
    string: float
    cosine: float
    alias_memories: int
    into_memories: int
    examples: tuple[str, ...]


async def propose(
    names: NamesUsed, embedder: Embedder, *, tenant: str, kind: NameKind, min_cosine: float = _MIN_COSINE
) -> list[Proposal]:
    """The names that are alike in spelling and meaning, each with what it may be merged into, likeliest first.

    Names of one memory are two, unless only punctuation differs, and so are names whose numbers differ. Of two the
    one that more memories give stays, then the longer, then the first by alphabet. ModelError.
    """
    pairs = await asyncio.to_thread(_alike, names)
    wanted = sorted({name for pair in pairs for name in pair})
    vectors = dict(zip(wanted, await embedder.embed_documents([names.label(one) for one in wanted]), strict=True))

    def place(name: str) -> tuple[int, int, str]:
        return -len(names.given_in[name]), -len(names.label(name)), names.label(name)

    likely: list[tuple[tuple[int, int, str], float, tuple[int, int, str], str, str, float, float]] = []
    for (one, other), string in pairs.items():
        cosine = min(1.0, float(vectors[one] @ vectors[other]))
        if cosine >= min_cosine:
            stays, goes = sorted((one, other), key=place)
            likely.append((place(goes), -round(string + cosine, 6), place(stays), goes, stays, string, cosine))
    found: dict[str, Proposal] = {}
    for _, _, _, alias, into, string, cosine in sorted(likely):
        if alias in found or into in found:
            continue
        one, other = names.given_in[alias], names.given_in[into]
        found[alias] = Proposal(
            id=hashlib.blake2b("\x1f".join((tenant, kind, alias, into)).encode(), digest_size=5).hexdigest(),
            kind=kind,
            alias=names.label(alias),
            into=names.label(into),
            string=round(string, 4),
            cosine=round(cosine, 4),
            alias_memories=len(one),
            into_memories=len(other),
            examples=(*one[:2], *other[:1]),
        )
    return sorted(found.values(), key=lambda one: (-round(one.string + one.cosine, 6), one.into, one.alias))


def _alike(names: NamesUsed) -> dict[tuple[str, str], float]:
    """The pairs that may be one name, with the similarity of their spelling; the lesser name comes first."""
    said = {name: tuple(whole_words(name)) or (name,) for name in sorted(names.given_in)}
    found: dict[tuple[str, str], float] = {}
    for one, other in _near(said):
        score = _spelling_similarity(said[one], said[other])
        if score < _MIN_STRING or sorted(_NUMBER.findall(one)) != sorted(_NUMBER.findall(other)):
            continue
        if said[one] == said[other] or set(names.given_in[one]).isdisjoint(names.given_in[other]):
            found[one, other] = score
    return found


def _near(said: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Pairs that share a word, a beginning or an end; in a large group only next to each other by alphabet."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, parts in said.items():
        squeezed = "".join(parts)
        keys = {f"word {word}" for word in parts if len(word) > 1}
        for key in keys | {f"head {squeezed[:_EDGE]}", f"tail {squeezed[-_EDGE:]}"}:
            groups[key].append(name)
    for group in groups.values():
        ahead = len(group) if len(group) <= _LARGE else _WINDOW
        yield from ((name, other) for at, name in enumerate(group) for other in group[at + 1 : at + 1 + ahead])


def _spelling_similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """How alike two names are spelt, in [0, 1], the same both ways; the order of their words does not count."""
    scores = [fuzz.token_sort_ratio(" ".join(one), " ".join(other)), fuzz.ratio(" ".join(one), " ".join(other))]
    if len(one) == len(other) > 1 and one[-1] == other[-1] and len(one[-1]) > 1:
        pairs = zip(one, other, strict=True)
        if all(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a, b in pairs):
            scores.append(_BY_INITIAL)
    return max(scores) / 100


MAX_NAME_CHARS, _AT_ONCE = 512, 2000
MergeStatus = Literal["merged", "unchanged", "conflict", "undone", "missing"]
_Spellings = Mapping[tuple[str, str], Sequence[str]]

_LISTED: LiteralString = """
SELECT id, kind, alias_label AS alias, merged_into AS into, canonical, scores, actor, undone_by,
    extract(epoch FROM at)::float8 AS at, extract(epoch FROM undone_at)::float8 AS undone_at
FROM entity_merges WHERE tenant = $1 AND (undone_at IS NULL OR $2) ORDER BY id
"""
_IN_FORCE: LiteralString = "SELECT * FROM entity_merges WHERE tenant = $1 AND undone_at IS NULL ORDER BY id"
_MERGE: LiteralString = """
INSERT INTO entity_merges
    (tenant, kind, alias, alias_label, merged_into, canonical, canonical_folded, scores, actor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *
"""
_UNDO: LiteralString = """
UPDATE entity_merges SET undone_at = now(), undone_by = $3
WHERE tenant = $1 AND id = ANY($2::bigint[]) AND undone_at IS NULL RETURNING *
"""
_DELETE: LiteralString = "DELETE FROM entity_merges WHERE tenant = $1 AND id = ANY($2::bigint[]) RETURNING *"
_KNOWN: LiteralString = "SELECT id FROM entity_merges WHERE tenant = $1 AND id = ANY($2::bigint[])"
# Every spelling of every name that a tenant's memories give.
_SPELLINGS: LiteralString = """
SELECT DISTINCT 'entity' AS kind, name FROM memories, unnest(entities) AS name WHERE tenant = $1 AND live
UNION ALL
SELECT DISTINCT 'relation', told ->> 'relation' FROM memories, jsonb_array_elements(statements) AS told
WHERE tenant = $1 AND live
"""
_NAMING: LiteralString = """
SELECT id, seq FROM memories WHERE tenant = $1 AND live AND entities && $2::text[]
UNION
SELECT id, seq FROM memories WHERE tenant = $1 AND live AND $3::text[] <> '{}' AND EXISTS (
    SELECT FROM jsonb_array_elements(statements) AS told WHERE told ->> 'relation' = ANY($3::text[])
)
ORDER BY seq
"""
# One memory that gives a name itself, so that what the copies hold of the name itself is written again.
_ONE_NAMING: LiteralString = """
SELECT id FROM memories WHERE tenant = $1 AND live AND entities && $2::text[] ORDER BY seq DESC LIMIT 1
"""
_NAMES: LiteralString = """
SELECT seq, id, entities, statements FROM memories
WHERE tenant = $1 AND live AND seq > $2 ORDER BY seq LIMIT $3
"""


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


@dataclass(frozen=True, slots=True)
class MergeVerdict:
    """The verdict on one request; `id` is the merge's, also of one that was in force already, or is in the way."""

    status: MergeStatus
    id: int | None = None
    alias: str | None = None
    into: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of requests: verdicts in their order, and how many memories give names that they concern."""

    verdicts: tuple[MergeVerdict, ...]
    memories: int = 0
    position: int | None = None


class Merges:
    """The merges of all tenants. Every method raises RecordError while Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def merge(self, tenant: str, wanted: Sequence[WantedMerge], *, actor: str | None = None) -> Merged:
        """Merges names, each judged alone and after those before it, in one transaction."""
        async with borrow(self._pool, "merging names") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            held = await connection.fetch(_IN_FORCE, tenant)
            spellings = await _spellings(connection, tenant)
            verdicts, made = list[MergeVerdict](), list[Row]()
            for one in wanted:
                verdict = _judged(one, [*held, *made], spellings)
                if verdict is None:
                    alias, into = one.alias.casefold(), one.into.casefold()
                    # Spelt as by the first merge into it.
                    forms = {(row["kind"], row["canonical_folded"]): row["canonical"] for row in (*held, *made)}
                    spelt = forms.get((one.kind, into), one.into)
                    given = one.kind, alias, one.alias, one.into, spelt, into, dict(one.scores), actor
                    made += await connection.fetch(_MERGE, tenant, *given)
                    why = None if (one.kind, alias) in spellings else "no memory gives this name yet"
                    verdict = MergeVerdict("merged", made[-1]["id"], one.alias, one.into, why)
                verdicts.append(verdict)
            lineage: dict[str, JsonValue] = {"merged": [row["id"] for row in made]}
            memories, position = await _tell(connection, tenant, made, spellings, actor, lineage)
        return Merged(verdicts=tuple(verdicts), memories=memories, position=position)

    async def undo(self, tenant: str, ids: Sequence[int], *, actor: str | None = None) -> Merged:
        """Undoes merges, in one transaction: what they changed is as it was. One that is undone stays so."""
        async with borrow(self._pool, "undoing merges") as connection, connection.transaction():
            await connection.execute(record_sql.LOCK_OUTBOX)
            known = {row["id"] for row in await connection.fetch(_KNOWN, tenant, list(ids))}
            rows = await connection.fetch(_UNDO, tenant, list(ids), actor)
            undone = {row["id"] for row in rows}
            spellings = await _spellings(connection, tenant)
            lineage: dict[str, JsonValue] = {"undone": sorted(undone)}
            memories, position = await _tell(connection, tenant, rows, spellings, actor, lineage)
        verdicts = [
            MergeVerdict("undone" if number in undone else "unchanged", number)
            if number in known
            else MergeVerdict("missing", number, reason="this tenant has no such merge")
            for number in ids
        ]
        return Merged(verdicts=tuple(verdicts), memories=memories, position=position)

    async def of(self, tenant: str, *, undone: bool = False) -> list[Merge]:
        """The merges in force, oldest first; with `undone` those that were undone as well."""
        rows = await fetched(self._pool, "reading merges", _LISTED, tenant, undone)
        return [Merge(**dict(row)) for row in rows]

    async def names(self, tenant: str, kind: NameKind) -> NamesUsed:
        """The names that the tenant's memories give now, under those that they were merged into."""
        used, seq = NamesUsed(), 0
        async with borrow(self._pool, "reading names") as connection:
            held = await connection.fetch(_IN_FORCE, tenant)
            called: dict[str, str] = {row["alias"]: row["canonical"] for row in held if row["kind"] == kind}
            while rows := await connection.fetch(_NAMES, tenant, seq, _AT_ONCE):
                for row in rows:
                    said: list[str] = row["entities"]
                    if kind == "relation":
                        said = [one["relation"] for one in row["statements"]]
                    used.add(row["id"], [called.get(name.casefold(), name) for name in said])
                seq = rows[-1]["seq"]
        return used


async def forget_merges(connection: Connection, tenant: str, ids: Sequence[int]) -> None:
    """Deletes merges whose names are forgotten, in the caller's transaction and under its lock on the outbox."""
    rows = await connection.fetch(_DELETE, tenant, list(ids))
    lineage: dict[str, JsonValue] = {"undone": list(ids)}
    await _tell(connection, tenant, rows, await _spellings(connection, tenant), None, lineage)


async def _spellings(connection: Connection, tenant: str) -> _Spellings:
    """How the tenant's memories spell every name. Postgres folds case by its locale, so it is not asked to."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in await connection.fetch(_SPELLINGS, tenant):
        found[row["kind"], row["name"].casefold()].append(row["name"])
    return found


def _judged(wanted: WantedMerge, held: Sequence[Row], spellings: _Spellings) -> MergeVerdict | None:
    """Why a merge is none; None when it is one."""

    def conflict(why: str, number: int | None = None) -> MergeVerdict:
        return MergeVerdict("conflict", number, wanted.alias, wanted.into, why)

    for what, name in (("the name", wanted.alias), ("the name to merge into", wanted.into)):
        if not name.strip() or len(name) > MAX_NAME_CHARS or storable(name) != name:
            return conflict(f"{what} must have 1 to {MAX_NAME_CHARS} characters that can be stored")
    alias, into = wanted.alias.casefold(), wanted.into.casefold()
    if alias == into:
        return conflict("these are one name already: case makes no difference")
    for row in (one for one in held if one["kind"] == wanted.kind):
        number = row["id"]
        if row["alias"] == alias and row["canonical_folded"] == into:
            return MergeVerdict("unchanged", number, wanted.alias, row["canonical"])
        if row["alias"] == alias:
            return conflict(f"it is merged into {row['canonical']!r} already: undo {number} first", number)
        if row["alias"] == into:
            return conflict(f"{wanted.into!r} is merged into {row['canonical']!r}: merge into that one", number)
        if row["canonical_folded"] == alias:
            return conflict(
                f"{row['alias_label']!r} is merged into it: undo {number} first, then merge both", number
            )
    if (wanted.kind, alias) not in spellings and (wanted.kind, into) not in spellings:
        return conflict("no memory gives either of these names")
    return None


async def _tell(
    connection: Connection,
    tenant: str,
    changed: Sequence[Row],
    spellings: _Spellings,
    actor: str | None,
    lineage: Mapping[str, JsonValue],
) -> tuple[int, int | None]:
    """Tells history and outbox of merges that were made or ended: how many memories, and the last position.

    Names are in the merge alone, so that one who erases a memory need not look for them in its history.
    """
    entities, relations = (
        [spelling for row in changed if row["kind"] == kind for spelling in spellings.get((kind, row["alias"]), ())]
        for kind in ("entity", "relation")
    )
    ids = [row["id"] for row in await connection.fetch(_NAMING, tenant, entities, relations)]
    for start in range(0, len(ids), _AT_ONCE):  # no statement that a time-out would end
        some = ids[start : start + _AT_ONCE]
        await connection.execute(record_sql.ADD_HISTORY, tenant, some, "merge", actor, lineage)
    told = [*ids]
    for name in dict.fromkeys(row["canonical_folded"] for row in changed if row["kind"] == "entity"):
        if same := spellings.get(("entity", name)):
            told += [row["id"] for row in await connection.fetch(_ONE_NAMING, tenant, list(same))]
    told, position = list(dict.fromkeys(told)), None
    for start in range(0, len(told), _AT_ONCE):
        rows = await connection.fetch(record_sql.ENQUEUE, tenant, told[start : start + _AT_ONCE])
        position = max(row["position"] for row in rows)
    return len(ids), position
