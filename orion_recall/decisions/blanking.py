"""Blanks the words of decisions about something that is forgotten: in the log, and on the bus. Figures stay.

A decision holds no text of a memory, but the question can repeat it, and what was understood of a question names
people. Of recalls by somebody who is forgotten, it is blanked who asked, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, LiteralString, cast

from orion_recall.postgres.pool import Connection
from orion_recall.values import JsonValue

AskedBy = Literal["user", "session", "tenant"]

# What was understood of a question that are no words of it.
_UNDERSTOOD = ("class", "shape", "language", "asks_for")
_WHO = ("session_id", "node_id", "user_id", "verb", "reply_to", "trace_id")

_SET_WORDS: LiteralString = """
    query = '', intent = NULL, error = CASE WHEN error IS NULL THEN NULL ELSE 'forgotten' END,
    sources = (SELECT coalesce(jsonb_object_agg(key,
                   CASE jsonb_typeof(value) WHEN 'object' THEN value - 'error' ELSE '{}' END), '{}')
               FROM jsonb_each(sources)),
    understood = (SELECT jsonb_object_agg(key, value) FROM jsonb_each(understood)
                  WHERE key IN ('class', 'shape', 'language', 'asks_for'))
"""
_SET_WHO: LiteralString = """
    , session_id = NULL, node_id = NULL, user_id = NULL, verb = NULL, reply_to = NULL, trace_id = NULL,
    corr_id = id::text
"""
# So that what is blanked already is not written again.
_HAS_WORDS: LiteralString = "(query <> '' OR intent IS NOT NULL OR understood ?| ARRAY['entities', 'class_words'])"
_HAS_ASKER: LiteralString = (
    "(query <> '' OR intent IS NOT NULL OR session_id IS NOT NULL OR user_id IS NOT NULL OR corr_id <> id::text)"
)
_QUOTING: LiteralString = """
id IN (SELECT d.id FROM unnest($2::text[]) AS given (memory_id)
       JOIN recall_decisions d ON d.selected_ids @> jsonb_build_array(given.memory_id) AND d.tenant = $1)
"""
_NAMING: LiteralString = """
(query ~* $2 OR intent ~* $2 OR error ~* $2 OR understood::text ~* $2 OR sources::text ~* $2)
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
    count = 0
    for condition, value, _ in _conditions(wanted):
        count += int(
            await connection.fetchval(
                f"SELECT count(*) FROM recall_decisions WHERE tenant = $1 AND {condition}",  # noqa: S608 (fixed text)
                wanted.tenant,
                value,
            )
        )
    return count


async def blank_decisions(connection: Connection, wanted: DecisionsWanted) -> int:
    """Blanks words in the log; how many rows were changed. Again changes nothing."""
    count = 0
    for condition, value, assignments in _conditions(wanted):
        status = await connection.execute(
            f"UPDATE recall_decisions SET {assignments} WHERE tenant = $1 AND {condition}",  # noqa: S608 (fixed text)
            wanted.tenant,
            value,
        )
        count += int(status.rpartition(" ")[2])
    return count


def _conditions(wanted: DecisionsWanted) -> list[tuple[LiteralString, object, LiteralString]]:
    """The condition, the value of its second parameter and what is set, of each way to be wanted."""
    found: list[tuple[LiteralString, object, LiteralString]] = []
    if wanted.ids:
        found.append((f"{_HAS_WORDS} AND {_QUOTING}", list(wanted.ids), _SET_WORDS))
    if wanted.naming is not None:
        found.append((_NAMING, wanted.naming, _SET_WORDS))
    if wanted.by is not None:
        found.append((f"{_HAS_ASKER} AND {_BY[wanted.by[0]]}", wanted.by[1], _SET_WORDS + _SET_WHO))
    return found


def blanked(payload: Mapping[str, Any], *, with_asker: bool) -> dict[str, Any]:
    """A decision's payload as `blank_decisions` leaves it in the log."""
    found = dict(payload) | {"query": "", "intent": None}
    if found.get("error") is not None:
        found["error"] = "forgotten"
    sources = found.get("sources")
    if isinstance(sources, Mapping):
        each = cast("Mapping[str, JsonValue]", sources)
        found["sources"] = {name: _without_error(one) for name, one in each.items()}
    understood = found.get("understood")
    if isinstance(understood, Mapping):
        told = cast("Mapping[str, JsonValue]", understood)
        found["understood"] = {name: told[name] for name in _UNDERSTOOD if name in told} or None
    if with_asker:
        found |= dict.fromkeys(_WHO) | {"corr_id": str(found.get("id"))}
    return found


def _without_error(one: JsonValue) -> JsonValue:
    if not isinstance(one, Mapping):
        return {}
    return {name: value for name, value in one.items() if name != "error"}
