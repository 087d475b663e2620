"""The page "Ask": one question over the bus, also that of a decision again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from orion_recall.console.decision import decision_of
from orion_recall.console.visit import Visit, decision_path, memory_path
from orion_recall.contracts import RecallReplyV1
from orion_recall.recall.report.asked import asked_part, is_damaged
from orion_recall.recall.report.sentences import why_sentences

_MOST_K = 100
# Of the options of a logged query the page has its own.
_NOT_ASKED_AGAIN = frozenset(("include", "tenant"))


async def ask_page(visit: Visit) -> Response:
    return await _page(visit)


async def ask(visit: Visit) -> Response:
    """The answer to the form's question; that of a logged decision is asked with its options."""
    form, question = visit.form, visit.form.raw("query").strip()
    if not question:
        return await _page(visit, error="Write a question first.")
    k = form.number("k", least=0, most=_MOST_K + 1)
    if form.text("k") and k not in range(1, _MOST_K + 1):
        return await _page(visit, error=f"Items at most: a whole number from 1 to {_MOST_K}.")
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {"profile": form.text("profile") or None}
    tenant = visit.tenant
    if form.text("again"):
        logged = await decision_of(visit, form.text("again"))
        if is_damaged(logged):
            error = "This decision cannot be asked again: what it says was asked is damaged."
            return await _page(visit, error=error)
        given = asked_part(logged, "options")
        options |= {name: value for name, value in given.items() if name not in _NOT_ASKED_AGAIN}
        fields |= {"session_id": logged.session_id, "node_id": logged.node_id, "intent": logged.intent}
        tenant = logged.tenant or tenant
    options |= {"tenant": tenant, "include": {"trace": True}} | ({"k": k} if k else {})
    reply = await visit.console.client.recall(question, **fields, options=options)
    if reply.error is not None:
        return await _page(visit, error=f"{reply.error.type}: {reply.error.message}")
    trace = cast("Mapping[str, Any]", reply.bundle.stats.trace or {})
    return await _page(visit, reply, why=tuple(why_sentences(trace)))


async def _page(
    visit: Visit, reply: RecallReplyV1 | None = None, *, why: Sequence[str] = (), error: str = ""
) -> Response:
    return visit.page(
        "ask.html",
        status=400 if error else 200,
        reply=reply,
        why=why,
        error=error,
        form=visit.form,
        tenant=visit.tenant,
        profiles=await visit.console.profiles_in_use(),
        decision_path=decision_path,
        memory_path=memory_path,
    )
