"""The pages of memories: a search in the record, one memory with its history, deleting one, and the graph."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import LiteralString

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from orion_recall.console.rendering import memory_path, value_words, when
from orion_recall.console.visit import Visit
from orion_recall.errors import InvalidMessage, SourceError
from orion_recall.graph.exchange.picture import page, page_policy, subgraph_around
from orion_recall.graph.stores.reader import open_graph_reader
from orion_recall.graph.tenant_graph import TenantGraph
from orion_recall.memory.record import successions
from orion_recall.memory.record.record import HistoryStep, ListedMemory, MemoryDetails, Record, history
from orion_recall.postgres.pool import borrow
from orion_recall.recall.report.sentences import STATED
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


async def memories_page(visit: Visit) -> Response:
    browser, words = Record(visit.console.pool), visit.form.text("words")
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
    async with borrow(pool, "reading decisions") as connection:
        decisions = await connection.fetch(_SELECTED_BY, storable(visit.tenant), storable(memory.id), _DECISIONS)
    return visit.page(
        "memory.html",
        status=status,
        details=details,
        memory=memory,
        steps=[(one, _changes(one)) for one in reversed(steps)],
        links=await successions.of_memory(pool, visit.tenant, memory.id),
        stated=STATED,
        decisions=decisions,
        error=error,
    )


async def _details(visit: Visit) -> MemoryDetails:
    name = visit.form.text("id")
    details = await Record(visit.console.pool).details(visit.tenant, name)
    if details is None:
        raise HTTPException(404, f"{visit.tenant!r} has no memory {name!r}")
    return details


def _changes(step: HistoryStep) -> list[tuple[str, str, str]]:
    """What a step changed: a name with what was before and after, in words."""
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


_TIMEOUT_S = 20.0
_MOST_NODES, _MOST_NAMES = 400, 64


async def graph_picture(visit: Visit) -> Response:
    """The picture, as a page with a policy of its own; the form again where there is nothing to draw."""
    names = [one.strip() for one in visit.form.text("entities").split(",") if one.strip()]
    nodes = visit.form.number("nodes", least=2, most=_MOST_NODES) or 100
    hops = visit.form.number("hops", least=1, most=4) or 2
    if len(names) > _MOST_NAMES:
        return await graph_page(visit, f"Name {_MOST_NAMES} entities at most.", 400)
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            open_graph_reader(visit.console.settings, timeout_s=_TIMEOUT_S) as graph,
        ):
            found = await TenantGraph(graph, visit.tenant).named(names) if names else {}
            if unknown := [name for name in names if not found.get(name)]:
                return await graph_page(visit, f"The graph has no entity named {', '.join(unknown)}.", 404)
            iris = list(dict.fromkeys(found[name][0] for name in names))
            part = await subgraph_around(graph, visit.tenant, iris, max_nodes=nodes, hops=hops)
    except TimeoutError:
        return await graph_page(visit, "The picture took too long: ask for fewer entities.", 504)
    except SourceError as error:
        return await graph_page(visit, f"The graph cannot be read: {error}", 503)
    if not part.nodes:
        return await graph_page(visit, f"The graph of {visit.tenant} has nothing to draw yet.", 404)
    title = f"Around {', '.join(names)}" if names else f"The graph of {visit.tenant}"
    policy = f"{page_policy()}; frame-ancestors 'none'"
    return HTMLResponse(page(part, title=title), headers={"content-security-policy": policy})


async def graph_page(visit: Visit, error: str = "", status: int = 200) -> Response:
    return visit.page("graph.html", status=status, tenant=visit.tenant, error=error)
