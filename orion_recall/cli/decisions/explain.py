"""`orion-recall decisions explain`: why a logged answer is as it is, and why a memory is not in it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Literal

import typer

from orion_recall.cli.ask.explain import show_trace
from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP, full_id
from orion_recall.cli.connect.record import with_record
from orion_recall.cli.evaluate.output import progress_bars
from orion_recall.cli.interrupts import interrupted_once
from orion_recall.cli.output import JsonFlag, note, print_error, print_json, prose, visible
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.texts import SelectedTexts, selected_texts
from orion_recall.evaluation.replay.run import as_of_decision
from orion_recall.evaluation.vectors import VectorCache, default_folder
from orion_recall.postgres.pool import Pool
from orion_recall.recall.report.explain import stats_of
from orion_recall.recall.report.sentences import why_not_sentence
from orion_recall.recall.report.why_not import WhyNot
from orion_recall.serving.explain import DecisionExplained, decision_named, explain_decision, why_not
from orion_recall.settings import Settings

_FIGURES = {"profile", "profile_hash", "outcome", "selected_ids", "dropped", "sources", "confidence", "tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What was asked for: one of the two; neither where there is no such decision, or no such memory."""

    decision: RecallDecisionV1 | None = None
    explained: DecisionExplained | None = None
    texts: SelectedTexts | None = None
    lost: WhyNot | None = None


def explain_logged_decision(
    decision_id: Annotated[
        str, typer.Argument(metavar="ID", help=f"A correlation id, or a decision's id, {PREFIX_HELP}.")
    ],
    memory: Annotated[
        str | None,
        typer.Option("--why-not", metavar="MEMORY", help="Why this memory is not in the answer: its whole id."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only a decision of this tenant.")] = None,
    as_of: Annotated[
        Literal["now", "decision"],
        typer.Option(help="Where it is asked again: on the data as they are now, or as the decision found them."),
    ] = "now",
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Explain a logged answer as `ask --explain` does, or say why a memory is not in it.

    It is told from the candidates that the decision kept (profile key `decisions`). Where it kept none, or they do
    not name the memory, the question is asked again on the data as they are now, which is said: with the decision's
    options, scope, clock and profile; nothing of that is counted or logged. With `--as-of decision` it is asked on
    an index and a graph that are built as they were, as `decisions replay` does. `--why-not` names the first stage
    that lost the memory, and by how much. Texts of memories are shown as they are now, where the login of
    ORION_POSTGRES_DSN may read them. Exit code 1: there is no such decision, or no such memory of its tenant.

    Example: `orion-recall decisions explain 875a5172 --why-not crane-05`
    """
    found = asyncio.run(_answered(find(data), decision_id, memory, tenant, then=as_of == "decision"))
    if found.decision is None:
        told = f"there is no decision {decision_id!r} (the newest may be a moment late)"
        print_error("NotFound", told, as_json=as_json)
        return 1
    if memory is None:
        assert found.explained is not None
        assert found.texts is not None
        _show(found.explained, found.texts, as_json=as_json)
        return 0
    if found.lost is None:
        print_error(
            "NotFound", f"there is no memory {memory!r} that the decision could have found", as_json=as_json
        )
        return 1
    _show_lost(found.decision, memory, found.lost, as_json=as_json)
    return 0


async def _answered(
    settings: Settings, name: str, memory: str | None, tenant: str | None, *, then: bool
) -> _Answer:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(interrupted_once())
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        decision = await _named(pool, name, tenant)
        if decision is None:
            return _Answer()
        asker = None
        if then:
            asker = as_of_decision(VectorCache(default_folder()), stack.enter_context(progress_bars()))
        if memory is not None:
            return _Answer(decision=decision, lost=await why_not(pool, settings, decision, memory, asker=asker))
        explained = await explain_decision(pool, settings, decision, asker=asker)
        return _Answer(decision=decision, explained=explained, texts=await selected_texts(pool, decision.id))


async def _named(pool: Pool, name: str, tenant: str | None) -> RecallDecisionV1 | None:
    if (decision := await decision_named(pool, name, tenant=tenant)) is not None:
        return decision
    whole = await full_id("decision", name, partial(DecisionLog(pool).ids_starting, tenant=tenant))
    return None if whole is None else await decision_named(pool, whole, tenant=tenant)


def _show(told: DecisionExplained, texts: SelectedTexts, *, as_json: bool) -> None:
    decision = told.decision
    if as_json:
        figures = decision.model_dump(mode="json", include=_FIGURES)
        document = {"decision": decision.id, "basis": told.basis, "notes": told.notes, **figures}
        print_json({**document, "trace": told.trace, "texts": asdict(texts)})
        return
    for remark in told.notes:
        note(remark)
    said = {one.memory_id: {"text": one.text, "speaker": one.speaker} for one in texts.items}
    candidates = [{**one, **said.get(one["id"], {})} for one in told.trace["candidates"]]
    show_trace(stats_of(decision), {**told.trace, "candidates": candidates})


def _show_lost(decision: RecallDecisionV1, memory: str, lost: WhyNot, *, as_json: bool) -> None:
    if as_json:
        print_json({"decision": decision.id, "memory": memory, **asdict(lost), "words": why_not_sentence(lost)})
        return
    for remark in lost.notes:
        note(remark)
    prose(visible(f"{lost.stage}: {why_not_sentence(lost)}"))
