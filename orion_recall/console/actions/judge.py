"""Adds a decision's question, with the memories that answer it, to the file of judged questions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.exceptions import HTTPException
from starlette.responses import Response

from orion_recall.console.decision import decision_of
from orion_recall.console.visit import Visit, decision_path
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.feedback import FeedbackMessage, JudgedRecall
from orion_recall.decisions.texts import selected_texts
from orion_recall.evaluation.feedback import FILE_NAME, Converted, LeftOut, add_judged

_WHY_NOT: dict[LeftOut, str] = {
    "text_not_kept": "the log does not hold the whole text of its question",
    "nothing_used": "tick a memory that answers it",
    "used_is_gone": "the ticked memories are deleted, or of an external store",
}


async def judge_decision(visit: Visit) -> Response:
    """Add the question with the ticked memories as its evidence, unless the file has it already."""
    if not (visit.access.may("feedback") or visit.access.may("operate")):
        raise HTTPException(403, "your token does not have the right to feedback or to operate")
    decision = await decision_of(visit, visit.path("decision_id"))
    texts = await selected_texts(visit.console.pool, decision.id)
    gone = frozenset(one.memory_id for one in texts.items if one.text is None)
    converted = Converted()
    line = converted.add(_judged(visit, decision, gone), 1)
    if line is None:
        why = next(iter(converted.left_out))
        raise HTTPException(400, f"nothing was added: {_WHY_NOT.get(why, why)}")
    added = await asyncio.to_thread(add_judged, visit.console.settings.data_dir / FILE_NAME, line)
    return visit.to(f"{decision_path(decision.id)}?said={'judged' if added else 'judged-before'}")


def _judged(visit: Visit, decision: RecallDecisionV1, gone: Collection[str]) -> JudgedRecall:
    told = (decision.understood or {}).get("class")
    shown = tuple(decision.selected_ids)
    return JudgedRecall(
        decision_id=decision.id,
        correlation_id=decision.corr_id,
        tenant=decision.tenant or visit.tenant,
        profile=decision.profile,
        query=decision.query,
        query_chars=decision.query_chars,
        asked_at=decision.created_at,
        scope=decision.scope,
        session_id=decision.session_id,
        user_id=decision.user_id,
        intent=decision.intent,
        query_class=told if isinstance(told, str) else None,
        shown=shown,
        live=frozenset(shown).difference(gone),
        feedback=(FeedbackMessage(used=visit.form.all("right"), wrong=()),),
    )
