"""The explanation of a logged decision, and why a memory is not in its answer: for commands and the console.

What the decision kept is told as it is. Where it kept no candidates, or they do not name the memory, the query is
asked again: here, or by the worker that holds index and graph.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.memories import MemoryFacts, memory_facts
from orion_recall.engines.lock import held_by
from orion_recall.memory.replicas.maintenance import CopyRequests
from orion_recall.postgres.pool import Pool
from orion_recall.profile.watch import profiles_with_default
from orion_recall.recall.report.asked import limits_of_decision, why_not_again
from orion_recall.recall.report.explain import explained_decision
from orion_recall.recall.report.sentences import no_answer_words
from orion_recall.recall.report.why_not import (
    WhyNot,
    lost_as_candidate,
    lost_by_record,
    lost_in_search,
    lost_since,
    never_found,
    time_of,
)
from orion_recall.serving.backends import embedded_copies, open_sources, own_copy
from orion_recall.serving.recall_again import AGAIN, KIND, Again, asked_again, served_profile
from orion_recall.settings import Settings

Basis = Literal["kept", "again", "none"]
_LAST_POSITION = (1 << 63) - 1
_KEPT = "from the candidates that the decision kept"
_AGAIN = (
    "the decision kept no candidates: the question was asked again, with its options, clock and profile, on "
    "{data}; nothing was counted or logged"
)
_OTHER_PROFILE = "the text behind the decision's profile_hash is not known: the profile in use was taken instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """How a query is asked again: by what, and on which data, in words."""

    ask: Callable[[Pool, Settings, RecallDecisionV1, str | None], Awaitable[Again]]
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionExplained:
    """A decision, and why its answer is as it is.

    `basis`: what its candidates are from: kept, asked again, or there are none. `notes` say that in words, and what
    stood in for what. `trace` has the form of a reply's `stats.trace`, without texts of memories.
    """

    decision: RecallDecisionV1
    basis: Basis
    notes: tuple[str, ...]
    trace: Mapping[str, Any]


async def explain_decision(
    pool: Pool, settings: Settings, decision: RecallDecisionV1, *, asker: Asker | None = None
) -> DecisionExplained:
    """The explanation. RecordError, SourceError, EngineError, ModelError where it cannot be asked again.

    By default it is asked again on the data as they are now.
    """
    asker = asker or ON_DATA_NOW
    if decision.candidates is not None:
        return DecisionExplained(
            decision=decision, basis="kept", notes=(_KEPT,), trace=explained_decision(decision)
        )
    if (why := why_not_again(decision)) is not None:
        told = f"the decision kept no candidates, and it cannot be asked again: {why}"
        return DecisionExplained(decision=decision, basis="none", notes=(told,), trace=explained_decision(decision))
    again = await asker.ask(pool, settings, decision, None)
    trace = explained_decision(again.decision)
    if again.searched is not None:
        trace["searched"] = dict(again.searched)
    told = _AGAIN.format(data=asker.data)
    notes = (told, *_differing(decision, again), *((_OTHER_PROFILE,) if again.has_other_profile else ()))
    return DecisionExplained(decision=again.decision, basis="again", notes=notes, trace=trace)


async def why_not(
    pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str, *, asker: Asker | None = None
) -> WhyNot | None:
    """The first stage that lost the memory, and by how much; None where there is no such memory.

    A memory of another tenant is none. Errors as those of `explain_decision`.
    """
    profile = await served_profile(pool, decision.profile_hash)
    limits = None if profile is None else limits_of_decision(decision, profile)
    # The log is anybody's to write: a position that no record has must not stop an explanation.
    position = max(0, min((decision.read_at or {}).get("index", 0), _LAST_POSITION))
    memory = await memory_facts(pool, decision.tenant or settings.default_tenant, memory_id, position=position)
    told = lost_as_candidate(decision, memory_id, limits)
    if told is not None:
        notes = (_KEPT,) if decision.candidates is not None else ()
        return replace(_with_time(decision, memory, told), notes=notes)
    if (
        memory is not None
        and (lost := lost_by_record(decision, memory) or lost_since(decision, memory)) is not None
    ):
        return replace(lost, notes=("from the record and what the decision says was asked",))
    return await _asked_again_for(pool, settings, decision, memory_id, memory, asker or ON_DATA_NOW)


async def ask_again(
    pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str | None = None
) -> Again:
    """The query asked again: by the worker that holds the copies of these settings, else here."""
    if any(held_by(settings.data_dir / kind) is not None for kind in embedded_copies(settings)):
        given = {"decision": decision.id, "memory": memory_id}
        told = await CopyRequests(pool).answered(own_copy(settings), KIND, "recall", given=given)
        return AGAIN.validate_python(told)
    profiles = profiles_with_default(settings)
    async with open_sources(settings) as opened:
        return await asked_again(
            decision.id, memory_id, pool=pool, settings=settings, sources=opened.sources, profiles=profiles
        )


ON_DATA_NOW = Asker(ask=ask_again, data="the data as they are now")


async def decision_named(pool: Pool, name: str, *, tenant: str | None = None) -> RecallDecisionV1 | None:
    """The decision of that id, else the newest of that correlation id; None where there is none of the tenant."""
    for one in await DecisionLog(pool).get(name):
        if tenant in (None, one.tenant) and (one.shadow_of is None or one.id == name):
            return one
    return None


async def _asked_again_for(
    pool: Pool,
    settings: Settings,
    decision: RecallDecisionV1,
    memory_id: str,
    memory: MemoryFacts | None,
    asker: Asker,
) -> WhyNot | None:
    why = why_not_again(decision)
    if why is not None:
        if memory is None:
            return None
        is_asked = decision.asked is None or "clock" in decision.asked
        stage, code = ("unknown", "not_kept") if is_asked else ("not_searched", "nothing_searched")
        return WhyNot(stage=stage, code=code, facts={"why": why})
    again = await asker.ask(pool, settings, decision, memory_id)
    profile = await served_profile(pool, decision.profile_hash)
    by = profile or profiles_with_default(settings)[settings.default_profile].profile
    kept = "kept no candidates" if decision.candidates is None else "does not name it among its candidates"
    notes = [f"the decision {kept}: the question was asked again, on {asker.data}"]
    notes += [_OTHER_PROFILE] if again.has_other_profile else []
    if again.fate is None:
        withheld = again.decision.no_answer
        facts = {"why": no_answer_words(withheld) if withheld else "nothing was asked"}
        lost = WhyNot(stage="not_searched", code="nothing_searched", facts=facts, notes=tuple(notes))
        return lost if memory is not None else None
    limits = limits_of_decision(decision, by)
    lost = lost_in_search(decision, again.decision, memory_id, limits, again.fate, data=asker.data)
    if lost is None and memory is None:
        return None
    return replace(_with_time(decision, memory, lost or never_found(again.fate)), notes=tuple(notes))


def _with_time(decision: RecallDecisionV1, memory: MemoryFacts | None, lost: WhyNot) -> WhyNot:
    return time_of(decision, memory, lost) if lost.stage == "time" and memory is not None else lost


def _differing(decision: RecallDecisionV1, again: Again) -> tuple[str, ...]:
    if decision.selected_ids == again.decision.selected_ids:
        return ("it gave the same memories in the same order",)
    then, now = set(decision.selected_ids), set(again.decision.selected_ids)
    lost, gained = [one for one in decision.selected_ids if one not in now], now - then
    if not lost and not gained:
        return ("it gave the same memories in another order: data, build or times have changed since",)
    told = f"{len(lost)} of {len(then)} memories are not in it, {len(gained)} are new"
    return (f"it gave another answer than then: {told}",)
