"""The page "Ask": one question over the bus, under one profile or two side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from starlette.responses import Response

from orion_recall.console.decision import decision_of
from orion_recall.console.visit import Visit, decision_path, memory_path
from orion_recall.contracts import MemoryItemV1, RecallDecisionV1, RecallReplyV1
from orion_recall.errors import ClientError, InvalidMessage
from orion_recall.recall.report.asked import damage_of
from orion_recall.recall.report.sentences import why_sentences

_MOST_K = 100
# Of the options of a logged query the page has its own.
_NOT_ASKED_AGAIN = frozenset(("include", "tenant"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedItem:
    """One item of an answer: `move` says where it is in the other answer, "" where there is no other."""

    place: int
    item: MemoryItemV1
    move: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer under one profile, or why there is none."""

    profile: str
    reply: RecallReplyV1 | None
    error: str
    items: Sequence[AskedItem] = ()
    lost: Sequence[MemoryItemV1] = ()
    why: Sequence[str] = ()


async def ask_page(visit: Visit) -> Response:
    """The form, with what the address says already in it."""
    return await _page(visit, ())


async def ask(visit: Visit) -> Response:
    """The answers to the form's question, beside one another."""
    if not _question(visit):
        return await _page(visit, (), error="Write a question first.")
    if visit.form.text("k") and visit.form.number_within("k", least=1, most=_MOST_K) is None:
        return await _page(visit, (), error=f"Items at most: a whole number from 1 to {_MOST_K}.")
    wanted = [visit.form.text("profile")]
    if (other := visit.form.text("other")) not in ("", *wanted):
        wanted.append(other)
    logged = await decision_of(visit, visit.form.text("again")) if visit.form.text("again") else None
    if logged is not None and (damage := damage_of(logged)) is not None:
        return await _page(visit, (), error=f"This decision cannot be asked again: {damage}.")
    answers = await asyncio.gather(*(_asked(visit, profile, logged) for profile in wanted))
    return await _page(visit, _compared(answers))


async def _page(visit: Visit, answers: Sequence[Answer], *, error: str = "") -> Response:
    return visit.page(
        "ask.html",
        status=400 if error else 200,
        answers=answers,
        error=error,
        form=visit.form,
        tenant=visit.tenant,
        profiles=await visit.console.profiles_in_use(),
        decision_path=decision_path,
        memory_path=memory_path,
    )


async def _asked(visit: Visit, profile: str, logged: RecallDecisionV1 | None) -> Answer:
    options: dict[str, Any] = {} if logged is None else _options_of(logged)
    options |= {"tenant": visit.tenant if logged is None else logged.tenant, "include": {"trace": True}}
    if (k := visit.form.number_within("k", least=1, most=_MOST_K)) is not None:
        options["k"] = k
    fields: dict[str, Any] = {"profile": profile or None, "options": options}
    if logged is not None:
        fields |= {"session_id": logged.session_id, "node_id": logged.node_id, "intent": logged.intent}
    try:
        reply = await visit.console.client.recall(_question(visit), **fields)
    except (ClientError, InvalidMessage) as error:
        return Answer(profile=profile or "the default", reply=None, error=str(error))
    told = reply.error
    trace = cast("Mapping[str, Any]", reply.bundle.stats.trace or {})
    return Answer(
        profile=reply.bundle.stats.profile,
        reply=None if told else reply,
        error=f"{told.type}: {told.message}" if told else "",
        items=[AskedItem(place=n, item=one, move="") for n, one in enumerate(reply.bundle.items, start=1)],
        why=tuple(why_sentences(trace)),
    )


def _question(visit: Visit) -> str:
    return visit.form.raw("query").strip()


def _options_of(logged: RecallDecisionV1) -> dict[str, Any]:
    given = cast("Mapping[str, Any]", (logged.asked or {}).get("options") or {})
    return {name: value for name, value in given.items() if name not in _NOT_ASKED_AGAIN}


def _compared(answers: Sequence[Answer]) -> Sequence[Answer]:
    if len(answers) < 2 or any(one.reply is None for one in answers):
        return answers
    left, right = answers
    return (_against(left, right), _against(right, left))


def _against(one: Answer, other: Answer) -> Answer:
    there = {item.item.id: item.place for item in other.items}
    items = [replace(item, move=_move(item.place, there.get(item.item.id))) for item in one.items]
    own = {item.item.id for item in items}
    return replace(one, items=items, lost=[item.item for item in other.items if item.item.id not in own])


def _move(place: int, there: int | None) -> str:
    if there is None:
        return "only here"
    return "same place" if there == place else f"number {there} there"
