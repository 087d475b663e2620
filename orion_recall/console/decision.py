"""The pages of decisions: one under its permanent address, with feedback on it and asking it again; "Ask"; "Now".

"Now" has the latest decisions as they come, outcomes, and latency by profile and stage.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from orion_recall.console.rendering import decision_path, value_words
from orion_recall.console.visit import Visit
from orion_recall.contracts import RecallDecisionV1, RecallReplyV1
from orion_recall.contracts.recall import NoAnswerV1, SelectedV1
from orion_recall.decisions.log import overview_since
from orion_recall.decisions.memories import SelectedText, feedback_on, selected_texts
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Row
from orion_recall.recall.report import sentences
from orion_recall.recall.report.asked import asked_part, is_damaged, why_not_again
from orion_recall.recall.report.reply import explained_decision
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.serving.explain import (
    Again,
    DecisionExplained,
    decision_named,
    doubts_of,
    explain_decision,
    why_not,
)
from orion_recall.tasks import sleep
from orion_recall.text.normal import storable
from orion_recall.text.zones import zone_or_utc
from orion_recall.values import OUTCOMES

_ACTOR = "console"
# As a recall goes through them; the log keeps no order.
_STAGES = "understand search fuse fetch compare follow score rank rerank cascade select".split()


class KeptItem(NamedTuple):
    """One item of an answer, why it is at its place, and the parts of its score, where their weights are known.

    `line` is as it was made anew; "" where another's line names it, None where it was not made anew. `memory` is as
    it is now; None where nobody may read it, or it is elsewhere.
    """

    item: SelectedV1
    why: str
    line: str | None
    memory: SelectedText | None
    parts: Sequence[Mapping[str, Any]]
    used: int
    wrong: int


async def decision_page(visit: Visit) -> Response:
    """The page; a correlation id leads to the newest decision that has it."""
    return await _page(visit, await decision_of(visit, visit.path("decision_id")))


async def why_not_memory(visit: Visit) -> Response:
    """The page with the first stage that lost the memory that the form names."""
    decision = await decision_of(visit, visit.path("decision_id"))
    missing = visit.form.text("memory")
    if not missing:
        raise HTTPException(400, "give the whole id of a memory")
    lost = await why_not(visit.console.pool, visit.console.settings, decision, missing)
    return await _page(visit, decision, missing=missing, lost=lost)


async def explain(visit: Visit) -> Response:
    """The page with the lines as they were sent, and all candidates: it is asked again, which nothing counts."""
    decision = await decision_of(visit, visit.path("decision_id"))
    explained = await explain_decision(visit.console.pool, visit.console.settings, decision, with_lines=True)
    return await _page(visit, decision, explained=explained)


async def _page(
    visit: Visit,
    decision: RecallDecisionV1,
    *,
    missing: str = "",
    lost: WhyNot | None = None,
    explained: DecisionExplained | None = None,
) -> Response:
    tenant = decision.tenant or visit.tenant
    feedback = await feedback_on(visit.console.pool, tenant, decision.id, decision.corr_id)
    texts = {one.rank: one for one in (await selected_texts(visit.console.pool, decision.id)).items}
    # The log has weights where all items have the same.
    trace = explained.trace if explained and decision.weights is None else explained_decision(decision)
    again = explained.again if explained else None
    states = {one.memory_id: one.state for one in texts.values()}
    is_recap = trace.get("understood", {}).get("shape") == "recap"
    candidates = (explained.decision if explained else decision).candidates
    clock, zone = zone_or_utc(_zone_of(decision))
    cascade = None if decision.cascade is None else decision.cascade.model_dump()
    return visit.page(
        "decision.html",
        decision=decision,
        clock=clock,
        zone=zone,
        tenant=tenant,
        kept=_kept(decision, feedback, texts, trace, again),
        nothing_sent=_nothing_sent(decision),
        again=again,
        doubts=doubts_of(decision, again, states) if again else (),
        why_not_again=why_not_again(decision),
        why=list(sentences.why_sentences(trace)) if is_recap else [],
        left_out=[one for one in candidates or () if not one.kept],
        missing=missing,
        lost=lost,
        lost_words=sentences.why_not_sentence(lost) if lost else "",
        explained=explained,
        cascade_words=f"{sentences.trigger_words(cascade)}; {sentences.ended_words(cascade)}" if cascade else "",
        stages=(stages := _in_order(decision.stage_ms)),
        longest=max(stages.values(), default=0.0) or 1.0,
        slowest=max((one.ms for one in decision.sources.values()), default=0.0) or 1.0,
        understood=_understood(decision),
        feedback=feedback,
        profiles=await visit.console.profiles_in_use(),
        address=f"{visit.request.base_url}{decision_path(decision.id)[1:]}",
    )


async def give_feedback(visit: Visit) -> Response:
    """Send what the form says of the items over the bus, and show the decision again."""
    decision = await decision_of(visit, visit.path("decision_id"))
    used, wrong = visit.form.getlist("used"), visit.form.getlist("wrong")
    if not used and not wrong:
        raise HTTPException(400, "nothing was said: press “Of use” or “Wrong” beside an item")
    receipt = await visit.console.client.feedback(
        decision_id=decision.id,
        tenant=decision.tenant,
        used=used,
        wrong=wrong,
        note=visit.form.text("note") or None,
        actor=f"{_ACTOR}:{visit.access.name}",
    )
    if receipt.error is not None:
        raise HTTPException(400, f"the feedback was not taken: {receipt.error.message}")
    return visit.to(f"{decision_path(decision.id)}?said=feedback")


async def decision_of(visit: Visit, name: str) -> RecallDecisionV1:
    """The decision of an id or correlation id, 404 where there is none that the visitor may see."""
    if (found := await decision_named(visit.console.pool, name, tenant=visit.access.only_tenant)) is not None:
        return found
    raise HTTPException(404, "there is no such decision; the newest may be a moment late: reload the page")


def _nothing_sent(decision: RecallDecisionV1) -> str:
    """Why the executor got no line, in words; "" where it got some."""
    if decision.shadow_of is not None:
        return "Nobody got this: it is what another profile would have answered."
    if decision.outcome in ("invalid", "expired", "refused", "failed"):
        return "An empty text; and the error, if the query had options."
    return "" if decision.selected else f"An empty text: {_nothing(decision.no_answer)}."


def _nothing(why: NoAnswerV1 | None) -> str:
    return sentences.no_answer_words(why) if why else "nothing was found that may be shown"


def _kept(
    decision: RecallDecisionV1,
    feedback: Sequence[Row],
    texts: Mapping[int, SelectedText],
    trace: Mapping[str, Any],
    again: Again | None,
) -> list[KeptItem]:
    why = sentences.item_sentences(trace)
    parts = {one["id"]: [part for part in one["parts"] if part["weight"] > 0] for one in trace["candidates"]}
    kept: list[KeptItem] = []
    for place, item in enumerate(decision.selected, start=1):
        said = (sum(item.id in one[verdict] for one in feedback) for verdict in ("used", "wrong"))
        line = again.lines.get(item.id) if again else None
        kept.append(KeptItem(item, why.get(item.id, ""), line, texts.get(place), parts.get(item.id, ()), *said))
    return kept


def _in_order(stage_ms: Mapping[str, float]) -> dict[str, float]:
    known = sorted(stage_ms, key=lambda name: _STAGES.index(name) if name in _STAGES else len(_STAGES))
    return {name: stage_ms[name] for name in known if name != "total"}


def _zone_of(decision: RecallDecisionV1) -> str:
    return str((decision.asked or {}).get("zone") or "UTC")


def _understood(decision: RecallDecisionV1) -> list[tuple[str, str]]:
    known: dict[str, Any] = dict(decision.understood or {})
    time: dict[str, Any] = {**(known.pop("time", None) or {})}
    intervals: Sequence[Mapping[str, Any]] = time.pop("intervals", None) or ()
    zone, told = _zone_of(decision), list[tuple[str, object]]()
    told += [("time", sentences.interval_words(one, zone)) for one in intervals]
    told += [("time", time), *known.items()]
    return [(name.replace("_", " "), text) for name, value in told if (text := value_words(value))]


_MOST_K = 100
# Of the options of a logged query the page has its own.
_NOT_ASKED_AGAIN = frozenset(("include", "tenant"))


async def ask(visit: Visit) -> Response:
    """The answer to the form's question; that of a logged decision is asked with its options."""
    form, question = visit.form, visit.form.raw("query").strip()
    if not question:
        return await ask_page(visit, error="Write a question first.")
    k = form.number("k", least=0, most=_MOST_K + 1)
    if form.text("k") and k not in range(1, _MOST_K + 1):
        return await ask_page(visit, error=f"Items at most: a whole number from 1 to {_MOST_K}.")
    options: dict[str, Any] = {}
    fields: dict[str, Any] = {"profile": form.text("profile") or None}
    tenant = visit.tenant
    if form.text("again"):
        logged = await decision_of(visit, form.text("again"))
        if is_damaged(logged):
            damaged = "This decision cannot be asked again: what it says was asked is damaged."
            return await ask_page(visit, error=damaged)
        given = asked_part(logged, "options")
        options |= {name: value for name, value in given.items() if name not in _NOT_ASKED_AGAIN}
        fields |= {"session_id": logged.session_id, "node_id": logged.node_id, "intent": logged.intent}
        tenant = logged.tenant or tenant
    options |= {"tenant": tenant, "include": {"trace": True}} | ({"k": k} if k else {})
    reply = await visit.console.client.recall(question, **fields, options=options)
    if reply.error is not None:
        return await ask_page(visit, error=f"{reply.error.type}: {reply.error.message}")
    return await ask_page(visit, reply)


async def ask_page(visit: Visit, reply: RecallReplyV1 | None = None, *, error: str = "") -> Response:
    trace: Mapping[str, Any] = (reply.bundle.stats.trace if reply else None) or {}
    return visit.page(
        "ask.html",
        status=400 if error else 200,
        reply=reply,
        why=list(sentences.why_sentences(trace)) if trace else [],
        nothing=_nothing(reply.bundle.stats.no_answer if reply else None),
        error=error,
        tenant=visit.tenant,
        profiles=await visit.console.profiles_in_use(),
    )


_WINDOWS = {
    "hour": ("the last hour", timedelta(hours=1)),
    "day": ("the last day", timedelta(days=1)),
    "week": ("the last seven days", timedelta(days=7)),
}
_SHOWN = 25
_EVERY_S = 1.0
# The sink writes batches, and workers' clocks differ: a decision may come after one that is newer.
_LATE = timedelta(seconds=30)
MOST_STREAMS = 32
_streams = asyncio.Semaphore(MOST_STREAMS)


async def now_page(visit: Visit) -> Response:
    window = visit.form.text("window")
    window = window if window in _WINDOWS else "hour"
    words, length = _WINDOWS[window]
    now = datetime.now(UTC)
    wanted, before = _wanted(visit), _before(visit)
    overview = await overview_since(visit.console.pool, now - length, tenant=wanted["tenant"])
    found, left_out = await visit.console.log.latest(_SHOWN + 1, **wanted, before=before)
    decisions, has_more = found[:_SHOWN], len(found) + left_out > _SHOWN
    asked = {name: text for name in (*wanted, "window") if (text := visit.form.text(name))}
    profiles = {*(one["profile"] for one in overview.profiles), *filter(None, [wanted["profile"]])}
    return visit.page(
        "now.html",
        now=now,
        window=window,
        window_words=words,
        windows={name: told for name, (told, _) in _WINDOWS.items()},
        overview=overview,
        slowest=max((stage["p95_ms"] for stage in overview.stages), default=0.0) or 1.0,
        decisions=decisions,
        left_out=left_out,
        most=_SHOWN,
        outcomes=OUTCOMES,
        profiles=sorted(profiles),
        is_chosen=bool(asked.keys() - {"window"}),
        is_live=before is None,
        newest=f"/?{urlencode(asked)}",
        older=f"/?{urlencode(asked | {'before': decisions[-1].id})}" if decisions and has_more else "",
        stream=f"/now/stream?{urlencode(asked)}",
    )


def _wanted(visit: Visit) -> dict[str, Any]:
    """Which decisions the list has, as the address says; of the visitor's tenant."""
    form = visit.form
    outcome = form.text("outcome")
    named = {name: storable(form.text(name)) or None for name in ("profile", "verb")}
    tenant = visit.only_tenant
    return {**named, "outcome": outcome if outcome in OUTCOMES else None, "tenant": tenant and storable(tenant)}


def _before(visit: Visit) -> UUID | None:
    """The decision after which the list goes on; 400 for what is no id."""
    given = visit.form.text("before")
    try:
        return UUID(given) if given else None
    except ValueError as error:
        raise HTTPException(400, "`before` is no id of a decision: go back to Now") from error


async def now_stream(visit: Visit) -> Response:
    """The decisions after a time, or from now on, as server-sent events; each has one row of the list, as HTML."""
    return _Live(_events(visit), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


class _Live(StreamingResponse):
    """A live list, as long as its browser is there; 503 where there are too many."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _streams.locked():
            raise HTTPException(503, f"{MOST_STREAMS} pages are live already")
        async with _streams:  # at once: nothing waits for a free one
            await super().__call__(scope, receive, send)


async def _events(visit: Visit) -> AsyncGenerator[str]:
    log, wanted = visit.console.log, _wanted(visit)
    newest = _after(visit)
    sent: dict[str, datetime] = {}
    yield ": decisions\n\n"
    while not await sleep(_EVERY_S, visit.console.stopping):
        if visit.console.access_of(visit.request) != visit.access:
            return  # the token was taken out of the file, or means something else now
        try:
            decisions, _ = await log.latest(_SHOWN, since=newest - _LATE, **wanted)
        except RecordError:
            yield "event: away\ndata: the decision log cannot be read\n\n"
            continue
        new = [one for one in reversed(decisions) if one.id not in sent]
        sent |= {one.id: one.created_at for one in new}
        newest = min(datetime.now(UTC), max([newest, *(one.created_at for one in new)]))
        sent = {name: at for name, at in sent.items() if at >= newest - 2 * _LATE}
        row = visit.console.templates.get_template("decision_row.html")
        rows = [row.render(one=one) for one in new]
        yield "".join(f"data: {' '.join(html.split())}\n\n" for html in rows) or ": nothing new\n\n"


def _after(visit: Visit) -> datetime:
    now = datetime.now(UTC)
    try:
        given = datetime.fromisoformat(visit.form.text("after")).astimezone(UTC)
    except (ValueError, OverflowError):
        return now
    return max(now - timedelta(days=7), min(now, given))
