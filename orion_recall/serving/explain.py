"""The explanation of a logged decision, why a memory is not in its answer, and its query asked again.

Where the decision kept no candidates, or they do not name the memory, the query is recalled again: by its own
profile, clock and scope, on the data as they are now, here or by the worker that holds index and graph. Nothing of
that is counted or logged, and sources have all the time they want.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

from pydantic import TypeAdapter

from orion_recall.contracts import RecallDecisionV1, RecallQueryV1
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.memories import MemoryFacts, memory_facts
from orion_recall.decisions.profile_texts import profile_text
from orion_recall.engines.lock import held_by
from orion_recall.errors import ModelError, ProfileError, RecordError, SourceError
from orion_recall.interfaces import Source
from orion_recall.memory.replicas.maintenance import Progress, Task, answered, serve
from orion_recall.postgres.pool import Pool
from orion_recall.profile import Profile
from orion_recall.profile.reading import parse_profile
from orion_recall.profile.watch import LoadedProfile, profiles_with_default
from orion_recall.recall.bundle.select import Lines
from orion_recall.recall.candidates.fuse import fuse
from orion_recall.recall.confidence.answer import UNSURE_NOTE
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.report import why_not as reasons
from orion_recall.recall.report.asked import clock_of, limits_of_decision, query_of, why_not_again
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import explained, explained_decision
from orion_recall.recall.report.sentences import no_answer_words
from orion_recall.recall.search.requests import NO_OPTIONS, TimeLimits, narrowed, requests_of, shown_of
from orion_recall.recall.types import PassResult, Sources
from orion_recall.recall.understand.question import zone_of
from orion_recall.scoring.candidates import Candidate
from orion_recall.serving.backends import embedded_copies, open_sources, own_copy
from orion_recall.settings import Settings
from orion_recall.tasks import in_time
from orion_recall.text.normal import memory_key, stems
from orion_recall.values import Hit, JsonValue, SearchRequest, SourceName

# The kind of copy that a request for it names: what a worker recalls from.
_KIND = "recall"
_POLL_S = 1.0
# Whoever asked hears of a worker that is silent for twenty seconds: this and the longer lists take less.
_TIMEOUT_S = 10.0
_SOURCE_MS = 5000
_DEEPEST = 10_000
_MOST_CANDIDATES = 2000
# A window that says anything: the shortest line of a memory.
_SHORTEST_WINDOW = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A query asked again: its decision with all candidates, which is in no log, and a memory's fate.

    `lines` are those of the rendered text by the ids of their memories, "" where another's line names one too;
    `note` stands before them. `has_other_profile`: the text of the decision's profile is not known: the one in use,
    or the default, was used.
    """

    decision: RecallDecisionV1
    lines: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""
    searched: Mapping[str, Any] | None = None
    has_other_profile: bool = False
    fate: reasons.Fate | None = None


# Hands the result to another process, by the record.
_AGAIN_JSON = TypeAdapter(Again)


async def answer_recall_requests(
    pool: Pool, settings: Settings, sources: Sources, profiles: Callable[[], Mapping[str, LoadedProfile]]
) -> None:
    """Answers the requests to recall a logged query again until cancelled; waits while the record is away."""

    async def answer(task: Task, given: Mapping[str, JsonValue], _: Progress) -> Mapping[str, JsonValue]:
        memory_id = cast("str | None", given.get("memory"))
        decision_id = str(given.get("decision"))
        again = await asked_again(pool, settings, sources, profiles(), decision_id=decision_id, memory_id=memory_id)
        return _AGAIN_JSON.dump_python(again, mode="json")

    while True:
        await asyncio.sleep(_POLL_S)
        with contextlib.suppress(RecordError):
            await serve(pool, own_copy(settings), _KIND, answer)


async def asked_again(
    pool: Pool,
    settings: Settings,
    sources: Sources,
    profiles: Mapping[str, LoadedProfile],
    *,
    decision_id: str,
    memory_id: str | None,
) -> Again:
    """The decision's query recalled again, with a memory's fate; SourceError where it cannot be asked again."""
    found = await DecisionLog(pool).get(decision_id)
    logged = next((one for one in found if one.id == decision_id), None)
    if logged is None:
        raise SourceError("the decision is not in the log any more")
    if (why := why_not_again(logged)) is not None:
        raise SourceError(f"it cannot be asked again: {why}")
    tenant = logged.tenant or settings.default_tenant
    if not settings.serves(tenant):
        raise SourceError(f"tenant {tenant!r} is not served here: ORION_TENANTS lists those that are")
    profile = await served_profile(pool, logged.profile_hash)
    by = (profile or profiles.get(logged.profile, profiles[settings.default_profile]).profile).model_copy(
        update={"source_timeout_ms": _SOURCE_MS}
    )
    query = query_of(logged)
    query = narrowed(query, by, settings.query_lane) or query
    recalled = await recall(query, by, sources, tenant=tenant, now=clock_of(logged), timeout_s=_TIMEOUT_S)
    facts = RequestFacts(
        decision_id=logged.id,
        corr_id=logged.corr_id,
        query=query_of(logged),
        tenant=logged.tenant,
        profile=logged.profile,
        profile_requested=logged.profile_requested,
        profile_hash=logged.profile_hash,
        candidates=_MOST_CANDIDATES,
    )
    latency_ms = round(sum(recalled.stage_ms.values()), 3)
    made = decision(facts, outcome=recalled.outcome, latency_ms=latency_ms, recalled=recalled)
    told = explained(recalled).get("searched")
    return Again(
        decision=made.model_copy(update={"created_at": logged.created_at}),
        lines={item.scored.memory.id: item.line for item in recalled.selection.items},
        note=UNSURE_NOTE if recalled.has_note else "",
        searched=None if told is None else recalled.redaction.json(told),
        has_other_profile=profile is None,
        fate=None if memory_id is None else await _fate_of(memory_id, recalled, query, by, sources),
    )


async def served_profile(pool: Pool, content_hash: str | None) -> Profile | None:
    """The profile behind a hash; None where its text is not known, or is another version's. RecordError."""
    text = None if content_hash is None else await profile_text(pool, content_hash)
    try:
        return None if text is None else parse_profile(text)
    except ProfileError:
        return None


async def _fate_of(
    memory_id: str, recalled: Recalled, query: RecallQueryV1, profile: Profile, sources: Sources
) -> reasons.Fate | None:
    result, key = recalled.result, memory_key(recalled.scope.tenant, memory_id)
    if result is None or recalled.understood is None:
        return None
    known = recalled.understood
    by = profile.for_class(known.classified.query_class, known.shape)
    ranks = _ranks(result, key)
    reason = result.dropped.each.get(key)
    fate = reasons.Fate(
        ranks=ranks, reason=reason.reason if reason and reason.reason in ("filtered", "missing") else None
    )
    if not ranks:
        return replace(fate, deep_ranks=await _deep_ranks(key, recalled, query, by, sources), deepest=_DEEPEST)
    if key in result.keys and reason is None and all(one.key != key for one in result.pool):
        fusing = result.fusing
        order = fuse(result.reports, fusing, with_text=0, within=result.within) if fusing is not None else ()
        return replace(fate, pool_place=_place(order, key))
    item = next((one for one in recalled.ranked if one.candidate.key == key), None)
    if item is None:
        is_hidden = reason is None and all(one.candidate.key != key for one in result.scored)
        return replace(fate, reason="deleted") if is_hidden else fate
    shown = shown_of(known.question, by, zone_of(query))
    lines = Lines(wanted=stems(known.question.terms), tokens=sources.tokens, shown=shown)
    line = lines.fitted(item, 1 << 20, window=_SHORTEST_WINDOW)
    return replace(fate, tokens=None if line is None else line.tokens)


def _ranks(result: PassResult, key: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for report in (*result.reports, *result.within):
        if (place := _place(report.hits, key)) is not None:
            found[report.source] = min(place, found.get(report.source, place))
    return found


async def _deep_ranks(
    key: int, recalled: Recalled, query: RecallQueryV1, profile: Profile, sources: Sources
) -> dict[str, int]:
    assert recalled.understood is not None
    limits = TimeLimits(pass_s=_TIMEOUT_S, full_s=_TIMEOUT_S, own_s=_SOURCE_MS / 1000)
    options = query.options or NO_OPTIONS
    asked = requests_of(recalled.understood.question, recalled.scope, profile, options, limits)

    async def rank(source: Source, request: SearchRequest) -> int | None:
        with contextlib.suppress(SourceError, ModelError, TimeoutError):
            return _place(await in_time(source.search(replace(request, limit=_DEEPEST)), limits.source_s), key)
        return None

    known: list[SourceName] = [name for name in asked if name in sources.by_name]
    found = await asyncio.gather(*(rank(sources.by_name[name], asked[name]) for name in known))
    return {str(name): place for name, place in zip(known, found, strict=True) if place is not None}


def _place(hits: Sequence[Hit | Candidate], key: int) -> int | None:
    return next((place for place, hit in enumerate(hits, start=1) if hit.key == key), None)


Basis = Literal["kept", "again", "none"]
_LAST_POSITION = (1 << 63) - 1
_KEPT = "from the candidates that the decision kept"
_AGAIN = (
    "the decision kept no candidates: the question was asked again, with its options, clock and profile, on "
    "{data}; nothing was counted or logged"
)
_OTHER_PROFILE = "the text behind the decision's profile_hash is not known: the profile in use was taken instead"


class Asker(NamedTuple):
    """How a query is asked again: by what, and on which data, in words."""

    ask: Callable[[Pool, Settings, RecallDecisionV1, str | None], Awaitable[Again]]
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionExplained:
    """A decision, and why its answer is as it is: `trace` is as a reply's `stats.trace`, without texts of memories.

    `basis`: what its candidates are from: kept, asked again, or there are none but the items; `notes` say that in
    words. `again` is there where the query was asked again.
    """

    decision: RecallDecisionV1
    basis: Basis
    notes: tuple[str, ...]
    trace: Mapping[str, Any]
    again: Again | None = None


async def explain_decision(
    pool: Pool,
    settings: Settings,
    decision: RecallDecisionV1,
    *,
    asker: Asker | None = None,
    with_lines: bool = False,
) -> DecisionExplained:
    """The explanation. `with_lines`: it is asked again, if it can be, also where the decision kept its candidates.

    RecordError, SourceError, EngineError, ModelError where asking again fails.
    """
    asker = asker or ON_DATA_NOW
    why, is_kept = why_not_again(decision), decision.candidates is not None
    again: Again | None = None
    if why is None and (with_lines or not is_kept):
        again = await asker.ask(pool, settings, decision, None)
    if is_kept or again is None:
        none = f"the decision kept no candidates, and it cannot be asked again: {why}"
        basis, told = ("kept", _KEPT) if is_kept else ("none", none)
        trace = explained_decision(decision)
        return DecisionExplained(decision=decision, basis=basis, notes=(told,), trace=trace, again=again)
    trace = explained_decision(again.decision)
    if again.searched is not None:
        trace["searched"] = dict(again.searched)
    told = _AGAIN.format(data=asker.data)
    notes = (told, *_differing(decision, again), *((_OTHER_PROFILE,) if again.has_other_profile else ()))
    return DecisionExplained(decision=again.decision, basis="again", notes=notes, trace=trace, again=again)


def doubts_of(decision: RecallDecisionV1, again: Again, states: Mapping[str, str]) -> tuple[str, ...]:
    """Why the lines of asking again may not be those that were sent, in words; none where they are.

    `states` say what became of each memory since; one that the record does not have may have changed.
    """
    found = [_OTHER_PROFILE] if again.has_other_profile else []
    if decision.selected_ids != again.decision.selected_ids:
        return (*found, *_differing(decision, again))
    if changed := [name for name in decision.selected_ids if states.get(name) != "unchanged"]:
        found.append(f"changed since, or not in the record: {', '.join(changed)}")
    then, now = decision.tokens, again.decision.tokens
    if then != now:
        found.append(f"then they had {then} tokens, and now {now}")
    of_lines = zip(decision.selected, again.decision.selected, strict=True)
    if others := [one.id for one, new in of_lines if one.tokens not in (None, new.tokens)]:
        found.append(f"of another length than then: {', '.join(others)}")
    return tuple(found)


async def why_not(
    pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str, *, asker: Asker | None = None
) -> reasons.WhyNot | None:
    """The first stage that lost the memory, and by how much; None where there is no such memory."""
    profile = await served_profile(pool, decision.profile_hash)
    limits = None if profile is None else limits_of_decision(decision, profile)
    # The log is anybody's to write: a position that no record has must not stop an explanation.
    position = max(0, min((decision.read_at or {}).get("index", 0), _LAST_POSITION))
    memory = await memory_facts(pool, decision.tenant or settings.default_tenant, memory_id, position=position)
    told = reasons.lost_as_candidate(decision, memory_id, limits)
    if told is not None:
        notes = (_KEPT,) if decision.candidates is not None else ()
        return replace(_with_time(decision, memory, told), notes=notes)
    lost = (
        None if memory is None else reasons.lost_by_record(decision, memory) or reasons.lost_since(decision, memory)
    )
    if lost is not None:
        return replace(lost, notes=("from the record and what the decision says was asked",))
    if (why := why_not_again(decision)) is not None:
        if memory is None:
            return None
        is_asked = decision.asked is None or "clock" in decision.asked
        stage, code = ("unknown", "not_kept") if is_asked else ("not_searched", "nothing_searched")
        return reasons.WhyNot(stage=stage, code=code, facts={"why": why})
    asker = asker or ON_DATA_NOW
    again = await asker.ask(pool, settings, decision, memory_id)
    kept = "kept no candidates" if decision.candidates is None else "does not name it among its candidates"
    notes = [f"the decision {kept}: the question was asked again, on {asker.data}"]
    notes += [_OTHER_PROFILE] if again.has_other_profile else []
    if again.fate is None:
        withheld = again.decision.no_answer
        facts = {"why": no_answer_words(withheld) if withheld else "nothing was asked"}
        lost = reasons.WhyNot(stage="not_searched", code="nothing_searched", facts=facts, notes=tuple(notes))
        return lost if memory is not None else None
    if limits is None:
        limits = limits_of_decision(decision, profiles_with_default(settings)[settings.default_profile].profile)
    lost = reasons.lost_in_search(decision, again.decision, memory_id, limits, again.fate, data=asker.data)
    if lost is None and memory is None:
        return None
    return replace(_with_time(decision, memory, lost or reasons.never_found(again.fate)), notes=tuple(notes))


async def ask_again(
    pool: Pool, settings: Settings, decision: RecallDecisionV1, memory_id: str | None = None
) -> Again:
    """The query asked again: by the worker that holds the copies of these settings, else here."""
    if any(held_by(settings.data_dir / kind) is not None for kind in embedded_copies(settings)):
        given = {"decision": decision.id, "memory": memory_id}
        told = await answered(pool, own_copy(settings), _KIND, "recall", lambda done, total: None, given)
        return _AGAIN_JSON.validate_python(told)
    own = profiles_with_default(settings)
    async with open_sources(settings) as opened:
        return await asked_again(pool, settings, opened.sources, own, decision_id=decision.id, memory_id=memory_id)


ON_DATA_NOW = Asker(ask=ask_again, data="the data as they are now")


async def decision_named(pool: Pool, name: str, *, tenant: str | None = None) -> RecallDecisionV1 | None:
    """The decision of that id, else the newest of that correlation id; None where there is none of the tenant."""
    for one in await DecisionLog(pool).get(name):
        if tenant in (None, one.tenant) and (one.shadow_of is None or one.id == name):
            return one
    return None


def _with_time(decision: RecallDecisionV1, memory: MemoryFacts | None, lost: reasons.WhyNot) -> reasons.WhyNot:
    return reasons.time_of(decision, memory, lost) if lost.stage == "time" and memory is not None else lost


def _differing(decision: RecallDecisionV1, again: Again) -> tuple[str, ...]:
    if decision.selected_ids == again.decision.selected_ids:
        return ("it gave the same memories in the same order",)
    then, now = set(decision.selected_ids), set(again.decision.selected_ids)
    lost, gained = [one for one in decision.selected_ids if one not in now], now - then
    if not lost and not gained:
        return ("it gave the same memories in another order: data, build or times have changed since",)
    told = f"{len(lost)} of {len(then)} memories are not in it, {len(gained)} are new"
    return (f"it gave another answer than then: {told}",)
