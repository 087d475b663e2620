"""What leaves the decision log: old decisions, which are counted and purged, and words that are blanked.

Blanked are the words of decisions about something that is forgotten: in the log, and on the bus. Figures stay.

A decision holds no text of a memory, but the question can repeat it, and what was understood of a question names
people. Of recalls by somebody who is forgotten, it is blanked who asked, too.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString, cast

from orion_recall.postgres.periods import BATCH_ROWS, OF_TENANT, OldRows, deleted_batches
from orion_recall.postgres.pool import Connection, Pool, borrow

AskedBy = Literal["user", "session", "tenant"]

# What was understood of a question that are no words of it.
_UNDERSTOOD = ("class", "shape", "language", "asks_for")
# What was asked that are neither words nor names.
_ASKED = ("clock", "zone", "limits")
_WHO = ("session_id", "node_id", "user_id", "verb", "reply_to", "trace_id")

# A row of another shape must not stop the others: of what is no object, or no list, nothing is left.
_SET_WORDS: LiteralString = """
    query = '', intent = NULL, error = CASE WHEN error IS NULL THEN NULL ELSE 'forgotten' END,
    sources = (SELECT coalesce(jsonb_object_agg(key,
                   CASE jsonb_typeof(value) WHEN 'object' THEN value - 'error' ELSE '{}' END), '{}')
               FROM jsonb_each(CASE jsonb_typeof(sources) WHEN 'object' THEN sources END)),
    understood = (SELECT jsonb_object_agg(key, value)
                  FROM jsonb_each(CASE jsonb_typeof(understood) WHEN 'object' THEN understood END)
                  WHERE key IN ('class', 'shape', 'language', 'asks_for')),
    asked = (SELECT jsonb_object_agg(key, value)
             FROM jsonb_each(CASE jsonb_typeof(asked) WHEN 'object' THEN asked END)
             WHERE key IN ('clock', 'zone', 'limits')),
    not_replayable = 'forgotten'
"""
_SET_WHO: LiteralString = """
    , session_id = NULL, node_id = NULL, user_id = NULL, verb = NULL, reply_to = NULL, trace_id = NULL,
    corr_id = id::text
"""
# So that what is blanked already is not written again.
_ASKED_WORDS: LiteralString = """
(CASE jsonb_typeof(asked) WHEN 'object' THEN asked - ARRAY['clock', 'zone', 'limits'] ELSE asked END)
"""
_ODD: LiteralString = """
(coalesce(jsonb_typeof(sources) <> 'object', false) OR coalesce(jsonb_typeof(understood) <> 'object', false))
"""
_HAS_WORDS: LiteralString = f"""
coalesce(query <> '' OR intent IS NOT NULL OR {_ASKED_WORDS} <> '{{}}'
    OR understood ?| ARRAY['entities', 'class_words'] OR {_ODD}, false)
"""
_HAS_ASKER: LiteralString = f"""
(query <> '' OR intent IS NOT NULL OR session_id IS NOT NULL OR user_id IS NOT NULL OR corr_id <> id::text
    OR {_ASKED_WORDS} <> '{{}}' OR {_ODD})
"""
# A candidate was not shown: it goes, and with it that another was dropped for it.
_CANDIDATES_LEFT: LiteralString = """
    (SELECT coalesce(jsonb_agg(CASE WHEN one.value ->> 'dropped_for' = ANY($2::text[])
                      THEN one.value || '{"dropped_for": null}' ELSE one.value END ORDER BY one.place), '[]')
                  FROM jsonb_array_elements(CASE jsonb_typeof(candidates) WHEN 'array' THEN candidates END)
                      WITH ORDINALITY AS one (value, place)
                  WHERE one.value ->> 'id' <> ALL($2::text[]))
"""
# As the index recall_decisions_candidates has them.
_CANDIDATES: LiteralString = """
(jsonb_path_query_array(d.candidates, '$[*].id') || jsonb_path_query_array(d.candidates, '$[*].dropped_for'))
"""
_WITH_CANDIDATE: LiteralString = f"""
candidates IS NOT NULL AND id IN (
    SELECT d.id FROM unnest($2::text[]) AS given (memory_id)
    JOIN recall_decisions d ON d.candidates IS NOT NULL AND d.tenant = $1
        AND {_CANDIDATES} @> jsonb_build_array(given.memory_id))
"""  # noqa: S608 (of constants)
_QUOTING: LiteralString = """
id IN (SELECT d.id FROM unnest($2::text[]) AS given (memory_id)
       JOIN recall_decisions d ON d.selected_ids @> jsonb_build_array(given.memory_id) AND d.tenant = $1)
"""
_NAMING: LiteralString = f"""
(query ~* $2 OR intent ~* $2 OR error ~* $2 OR understood::text ~* $2 OR sources::text ~* $2
    OR ({_ASKED_WORDS})::text ~* $2)
"""
_BY: Mapping[AskedBy, LiteralString] = {
    "user": "user_id = $2",
    "session": "session_id = $2",
    "tenant": "tenant = $2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsWanted:
    """Which decisions of a tenant: that quoted memories, that name somebody (a regular expression), by an asker."""

    tenant: str
    ids: tuple[str, ...] = ()
    naming: str | None = None
    by: tuple[AskedBy, str] | None = None


async def count_decisions(connection: Connection, wanted: DecisionsWanted) -> int:
    """How many decisions have words that `blank_decisions` would blank."""
    select = "SELECT count(*) FROM recall_decisions WHERE tenant = $1 AND "
    counts = [
        await connection.fetchval(select + condition, wanted.tenant, value)
        for condition, value, _ in _conditions(wanted)
    ]
    return sum(map(int, counts))


async def blank_decisions(connection: Connection, wanted: DecisionsWanted) -> int:
    """Blanks words in the log; how many rows were changed. Again changes nothing."""
    count = 0
    for condition, value, assignments in _conditions(wanted):
        update = f"UPDATE recall_decisions SET {assignments} WHERE tenant = $1 AND {condition}"  # noqa: S608 (fixed)
        count += int((await connection.execute(update, wanted.tenant, value)).rpartition(" ")[2])
    return count


def _conditions(wanted: DecisionsWanted) -> list[tuple[LiteralString, object, LiteralString]]:
    """The condition, the value of its second parameter and what is set, of each way to be wanted."""
    found: list[tuple[LiteralString, object, LiteralString]] = []
    if wanted.ids:
        quoting: LiteralString = f"{_HAS_WORDS} AND {_QUOTING}"
        given = list(wanted.ids)
        of_both: LiteralString = (
            f"{_SET_WORDS}, candidates = CASE WHEN candidates IS NOT NULL THEN {_CANDIDATES_LEFT} END"
        )
        found.append((quoting, given, of_both))
        found.append((f"{_WITH_CANDIDATE} AND NOT ({quoting})", given, f"candidates = {_CANDIDATES_LEFT}"))
    if wanted.naming is not None:
        found.append((_NAMING, wanted.naming, _SET_WORDS))
    if wanted.by is not None:
        found.append((f"{_HAS_ASKER} AND {_BY[wanted.by[0]]}", wanted.by[1], _SET_WORDS + _SET_WHO))
    return found


def blanked(payload: Mapping[str, Any], *, with_asker: bool, ids: Collection[str] = frozenset()) -> dict[str, Any]:
    """A decision's payload as `blank_decisions` leaves it in the log; `ids` are the memories that are forgotten."""
    found = dict(payload) | {"query": "", "intent": None, "not_replayable": "forgotten"}
    if found.get("error") is not None:
        found["error"] = "forgotten"
    if isinstance(sources := found.get("sources"), dict):
        each = cast("dict[str, Any]", sources)
        found["sources"] = {name: _only(one, but=("error",)) for name, one in each.items()}
    for name, kept in (("understood", _UNDERSTOOD), ("asked", _ASKED)):
        if isinstance(found.get(name), dict):
            found[name] = _only(found[name], kept) or None
    if isinstance(candidates := found.get("candidates"), list):
        left = [_only(one) for one in cast("list[Any]", candidates) if isinstance(one, dict)]
        found["candidates"] = [
            one | ({"dropped_for": None} if one.get("dropped_for") in ids else {})
            for one in left
            if one.get("id") not in ids
        ]
    if with_asker:
        found |= dict.fromkeys(_WHO) | {"corr_id": str(found.get("id"))}
    return found


def _only(value: Any, kept: Collection[str] | None = None, *, but: Collection[str] = ()) -> dict[str, Any]:
    """These keys of an object, by default all; of anything else nothing is left."""
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {name: one for name, one in given.items() if name not in but and (kept is None or name in kept)}


# Oldest first by the index on created_at.
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM recall_decisions WHERE id IN (
        SELECT id FROM recall_decisions WHERE created_at < $1 AND {OF_TENANT}
        ORDER BY created_at LIMIT $2
    ) RETURNING created_at
)
SELECT count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest FROM gone
"""  # noqa: S608 (of constants)
_COUNT: LiteralString = """
SELECT count(*) AS count, min(created_at) AS oldest, max(created_at) AS newest
FROM recall_decisions WHERE created_at < $1
"""
OLD_DECISIONS = OldRows(
    what="decisions", lock="decisions", delete=_DELETE, log=logging.getLogger("orion_recall.decisions")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """How many decisions were deleted, and between which times."""

    count: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None


async def count_older(pool: Pool, before: datetime) -> Deleted:
    """What `purge_older` would delete; RecordError when Postgres is away."""
    async with borrow(pool, "counting old decisions") as connection:
        (row,) = await connection.fetch(_COUNT, before)
    return Deleted(**dict(row.items()))


async def purge_older(pool: Pool, before: datetime, *, batch_rows: int = BATCH_ROWS) -> Deleted:
    """Delete every decision from before the time, batch by batch; gives what was deleted.

    RecordError when Postgres is away: earlier batches stay deleted, and the purge may be called again.
    """
    batches = deleted_batches(pool, OLD_DECISIONS, before, batch_rows=batch_rows)
    found = [batch async for batch in batches if batch["count"]]
    if not found:
        return Deleted()
    count = sum(batch["count"] for batch in found)
    return Deleted(count=count, oldest=found[0]["oldest"], newest=found[-1]["newest"])
