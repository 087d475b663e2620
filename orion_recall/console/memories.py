"""The pages of memories: a search in the record, one memory with its history, and deleting it over the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.console.rendering import value_words, when
from orion_recall.console.visit import Visit, decision_path, memory_path
from orion_recall.errors import InvalidMessage
from orion_recall.memory.record.reader import ListedMemory, MemoryDetails, RecordReader
from orion_recall.memory.record.record import HistoryStep, history
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.text.normal import storable
from orion_recall.values import JsonValue

_SHOWN = 50
_DECISIONS = 20
# What follows from the rest, or says of every step that it is one.
_NOT_SHOWN = frozenset(("seq", "version", "updated_at", "recorded_at", "text_hash", "content_hash", "statements"))
_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at", "deleted_at", "ts"))
_SELECTED_BY: LiteralString = """
SELECT id::text AS id, created_at, query, profile FROM recall_decisions
WHERE selected_ids @> jsonb_build_array($2::text) AND tenant = $1 AND shadow_of IS NULL
ORDER BY created_at DESC LIMIT $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedBy:
    """A decision that selected the memory."""

    id: str
    created_at: datetime
    query: str
    profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """One step of a history, and what it changed: a name with what was before and after, in words."""

    step: HistoryStep
    changes: Sequence[tuple[str, str, str]]


async def memories_page(visit: Visit) -> Response:
    browser, words = RecordReader(visit.console.pool), visit.form.text("words")
    error = ""
    found: Sequence[ListedMemory] = ()
    try:
        if words:
            found = await browser.search(visit.tenant, words, None, _SHOWN + 1)
        else:
            found = await browser.newest(visit.tenant, None, _SHOWN + 1)
    except InvalidMessage as refused:
        error = str(refused)
    return visit.page(
        "memories.html",
        words=words,
        tenant=visit.tenant,
        found=found[:_SHOWN],
        has_more=len(found) > _SHOWN,
        error=error,
        memory_path=memory_path,
    )


async def memory_page(visit: Visit) -> Response:
    return await _page(visit, await _details(visit))


async def delete_memory(visit: Visit) -> Response:
    """Delete the memory for ever, if it is still as the form shows it and the visitor says so."""
    details = await _details(visit)
    if visit.form.text("sure") != "yes":
        return await _page(visit, details, error="Nothing was deleted: say that you are sure.", status=400)
    if visit.form.text("version") != str(details.memory.version):
        changed = "Nothing was deleted: the memory was changed meanwhile. This is how it is now."
        return await _page(visit, details, error=changed, status=409)
    receipt = await visit.console.client.delete(
        [details.memory.id],
        tenant=visit.tenant,
        actor=f"console:{visit.access.name}",
        reason=visit.form.text("reason") or None,
        erase=visit.form.text("erase") == "yes",
    )
    if receipt.error is not None:
        return await _page(visit, details, error=receipt.error.message, status=400)
    verdict = receipt.results[0]
    if verdict.status not in ("deleted", "unchanged"):
        why = f"{verdict.status}: {verdict.reason}" if verdict.reason else verdict.status
        return await _page(visit, details, error=f"Nothing was deleted: {why}", status=409)
    return visit.to(f"{memory_path(visit.tenant, details.memory.id)}&said=deleted")


async def _page(visit: Visit, details: MemoryDetails, *, error: str = "", status: int = 200) -> Response:
    memory, pool = details.memory, visit.console.pool
    steps = await history(pool, visit.tenant, memory.id)
    return visit.page(
        "memory.html",
        status=status,
        details=details,
        memory=memory,
        steps=[ShownStep(step=one, changes=_changes(one)) for one in reversed(steps)],
        decisions=await _selected_by(pool, visit.tenant, memory.id),
        error=error,
        said=visit.form.text("said"),
        memory_path=memory_path,
        decision_path=decision_path,
    )


async def _details(visit: Visit) -> MemoryDetails:
    name = visit.form.text("id")
    details = await RecordReader(visit.console.pool).details(visit.tenant, name)
    if details is None:
        raise HTTPException(404, f"{visit.tenant!r} has no memory {name!r}")
    return details


async def _selected_by(pool: Pool, tenant: str, memory_id: str) -> list[SelectedBy]:
    async with borrow(pool, "reading decisions") as connection:
        rows = await connection.fetch(_SELECTED_BY, storable(tenant), storable(memory_id), _DECISIONS)
    return [SelectedBy(**dict(row.items())) for row in rows]


def _changes(step: HistoryStep) -> list[tuple[str, str, str]]:
    before: Mapping[str, JsonValue] = step.before or {}
    after: Mapping[str, JsonValue] = step.after or {}
    if step.before is None:
        return [("text", "", value_words(after["text"]))] if after.get("text") else []
    if "erased" in before:
        return [("erased", "", "")]
    names = [name for name in after if name not in _NOT_SHOWN and before.get(name) != after[name]]
    return [(name, _told(name, before.get(name)), _told(name, after[name])) for name in names]


def _told(name: str, value: JsonValue) -> str:
    if name in _TIMES and isinstance(value, str):
        return f"{when(datetime.fromisoformat(value))} UTC"
    return value_words(value)
