"""Why the same query under the same profile has another answer than the logged one: what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from orion_recall.evaluation.decision_replay.logged import Answer, LoggedQuery
from orion_recall.evaluation.decision_replay.past_record import Moment, PastRecord
from orion_recall.models.embedder import Embedder

# Vectors of one text differ in the last bits from one batch to another.
_ROUNDING = 1e-3

_ERASED = """
SELECT wanted.id FROM unnest($2::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT FROM {old}.memories m WHERE m.tenant = $1 AND m.id = wanted.id AND m.content_hash <> '')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a replayed query ran under: its moment, the copies read, what was erased, and the model."""

    moment: Moment
    copies: Mapping[str, int]
    erased: tuple[str, ...]
    embedder: Embedder
    as_of: str


async def erased_ids(past: PastRecord, logged: LoggedQuery) -> tuple[str, ...]:
    """The ids of the logged answer that the record does not hold: erased, forgotten, or of another store."""
    rows = await past.fetch(past.of_record(_ERASED), [logged.tenant, list(logged.answer.ids)])
    return tuple(row["id"] for row in rows)


def why_different(logged: LoggedQuery, control: Answer, found: Circumstances) -> str:
    """The first that explains it; "unknown" where nothing does."""
    if found.erased:
        return "memories of the answer were erased since, or are of another store"
    build = logged.build
    if build.get("version", here := version("orion-recall")) != here:
        return f"it was answered by version {build['version']}, this is {here}"
    if build.get("model", found.embedder.name) != found.embedder.name:
        return f"it was answered with the model {build['model']}, this is {found.embedder.name}"
    if found.as_of == "now":
        return "the memories have changed since"
    further = [kind for kind, at in logged.read_at.items() if found.copies.get(kind, at) > at]
    if further:
        return f"several workers' copies were at different positions: the {further[0]} is further here"
    if not logged.read_at:
        return "the log does not hold which changes the copies had applied"
    if min(logged.read_at.values()) < found.moment.position:
        return "changes were under way: the copies had not applied them"
    if _is_of_rounding(logged.answer, control):
        return "memories with equal scores, but for the last bits, are in another order"
    return "unknown: something outside the record, such as how often memories were used, or an extraction since"


def _is_of_rounding(logged: Answer, control: Answer) -> bool:
    """Whether all scores are those that were logged, and those of one answer alone are like the other's last."""
    both = [name for name in logged.ids if name in control.scores]
    if any(abs(logged.scores.get(name, 0.0) - control.scores[name]) > _ROUNDING for name in both):
        return False
    return len(logged.ids) == len(control.ids)
