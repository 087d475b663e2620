"""The recall pipeline: every step of one query, from understanding to bundle.

understand -> a search pass, again where nothing is found, or for each layer of a cascade ->
caps and token budget -> confidence -> the answer, which may be unsure -> bundle

`recall()` is the whole service as one call; the worker calls it for each query on the bus.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.contracts.recall import NoAnswerV1
from orion_recall.foreground import CUT_BY_CALLER
from orion_recall.profile import Profile
from orion_recall.profile.sections import Render
from orion_recall.recall.bundle.select import Selection, select, select_recap
from orion_recall.recall.cascade import CascadeRun, limits_of, run_cascade
from orion_recall.recall.confidence.answer import (
    NO_CONFIDENCE,
    UNSURE_NOTE,
    AnswerConfidence,
    answer_confidence,
    answer_of,
    asks_nothing,
    confidences,
)
from orion_recall.recall.ranking.score import with_instructing
from orion_recall.recall.search.all_sources import SILENT, asks_others, or_else
from orion_recall.recall.search.period import is_answered, tries
from orion_recall.recall.search.requests import NO_OPTIONS, TimeLimits, caps_of, requests_of, scope_of, shown_of
from orion_recall.recall.search_pass import search_pass
from orion_recall.recall.types import ModelReport, PassResult, Pool, Sources, StageTimes
from orion_recall.recall.understand.question import Understanding, understand, zone_of
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.source_specs import source_names
from orion_recall.text.normal import memory_key
from orion_recall.text.redaction import NO_REDACTION, Redaction
from orion_recall.values import JsonValue, Outcome, Scope, SourceReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The outcome of one recall. `selection` is what was kept of the ranked.

    `clock` (epoch seconds), `timeout_s` and `read_at`, the outbox position that each copy had applied before the
    search, by kind (`index`, `graph`), are what it went by besides its query. `result` is the search pass, or all
    passes of a cascade together; None where nothing was searched. `is_unsure`: nothing clearly answers, the nearest
    are handed over; `has_note`: the rendered text says so. `metadata` is that of the bundle's memories, by key.
    """

    outcome: Outcome
    scope: Scope
    selection: Selection
    stage_ms: Mapping[str, float]
    clock: float
    timeout_s: float
    read_at: Mapping[str, int]
    understood: Understanding | None = None
    result: PassResult | None = None
    confidence: AnswerConfidence = NO_CONFIDENCE
    cascade: CascadeRun | None = None
    withheld: NoAnswerV1 | None = None
    is_unsure: bool = False
    has_note: bool = False
    strategy: str | None = None
    render: Render | None = None
    redaction: Redaction = NO_REDACTION
    metadata: Mapping[int, Mapping[str, JsonValue]] = field(default_factory=dict[int, Mapping[str, JsonValue]])

    @property
    def reports(self) -> tuple[SourceReport, ...]:
        """The reports of the sources."""
        return self.result.reports if self.result else ()

    @property
    def ranked(self) -> tuple[ScoredCandidate, ...]:
        """The order before caps and budget."""
        return self.result.ranked if self.result else ()

    @property
    def reranking(self) -> ModelReport | None:
        """The reranker's report; None where the profile has it off."""
        return self.result.reranking if self.result else None

    @property
    def late_interaction(self) -> ModelReport | None:
        """The report of late interaction; None where the profile has it off."""
        return self.result.late_interaction if self.result else None

    @property
    def rendered(self) -> str:
        """The bundle as prompt text: one bullet a line, after its note if it is unsure; "" for nothing."""
        note = (UNSURE_NOTE,) if self.has_note else ()
        return "\n".join((*note, *(item.line for item in self.selection.items if item.line)))


async def recall(
    query: RecallQueryV1,
    profile: Profile,
    sources: Sources,
    *,
    tenant: str = "default",
    now: float | None = None,
    timeout_s: float = 2.0,
    full_timeout_s: float | None = None,
) -> Recalled:
    """The memories that answer the query, ranked, and those of them that fit into the bundle.

    `now` (epoch seconds) is the query's clock; `options.as_of` wins over it. The same data, profile and clock give
    the same result. `full_timeout_s` (default: `timeout_s`) is what a caller has who sets no shorter time: a source
    that is late for a shorter one has not failed. Raises InvalidMessage for a scope without its id.
    """
    stages = StageTimes()
    applied_position = sources.tombstones.applied_position()  # before the search: the copies move on while it runs
    read_at = sources.tombstones.positions()
    options = query.options or NO_OPTIONS
    full_s = timeout_s if full_timeout_s is None else max(timeout_s, full_timeout_s)
    CUT_BY_CALLER.set(timeout_s < full_s)
    clock = options.as_of.timestamp() if options.as_of else (time.time() if now is None else now)
    scope = scope_of(query, profile, tenant)
    nothing = Recalled(
        outcome="empty",
        scope=scope,
        selection=Selection(items=(), tokens=0, dropped={}),
        stage_ms=stages.ms,
        clock=clock,
        timeout_s=timeout_s,
        read_at=read_at,
    )
    if not query.fragment.strip():
        stages.done("understand")
        return nothing
    nobody: frozenset[str] = frozenset()  # while the index is away or late, which its own sources will report
    limit_s = min(timeout_s, profile.source_timeout_ms / 1000)
    speakers = await or_else(sources.lexicon.speakers(scope), nobody, limit_s) if sources.lexicon else nobody
    understood = understand(query, profile, now=clock, speakers=speakers)
    query_class, shape = understood.classified.query_class, understood.shape
    strategy, profile = profile.strategy_for(query_class, shape), profile.for_class(query_class, shape)
    stages.done("understand")
    if (why_not := asks_nothing(query, understood, profile)) is not None:
        return replace(nothing, understood=understood, strategy=strategy, withheld=why_not)

    async def searched(
        profile: Profile, scope: Scope, *, timeout_s: float, stages: StageTimes, given: PassResult | None = None
    ) -> PassResult:
        """The result of the first reading of the question that finds something, else of the last one."""
        limits = TimeLimits(pass_s=timeout_s, full_s=full_s, own_s=profile.source_timeout_ms / 1000)
        found: PassResult | None = None
        for asked, its_scope in await tries(understood, scope, sources.chronological, own_session=query.session_id):
            pool = Pool(
                query=query,
                understood=asked,
                profile=profile,
                scope=its_scope,
                sources=sources,
                applied_position=applied_position,
                limits=limits,
                times=stages,
                requests=requests_of(asked.question, its_scope, profile, options, limits),
                given=given,
            )
            found = await search_pass(pool)
            if is_answered(found):
                break
        assert found is not None  # there is always a first try
        return found

    cascade: CascadeRun | None = None
    limits = limits_of(profile, options, scope, query.session_id, query_class)
    if limits is not None and not understood.is_recap:  # a period is listed as a whole
        facts = sources.record_facts
        cascade = await run_cascade(limits, searched, profile, understood, stages, timeout_s=timeout_s, facts=facts)
        stages.done("cascade")
    result = cascade.result if cascade else await searched(profile, scope, timeout_s=timeout_s, stages=stages)
    result = with_instructing(result, profile.reader_instructions)
    understood = result.asked or understood

    caps = caps_of(profile, options)
    room_tokens = caps.budget_tokens - sources.tokens.count(f"{UNSURE_NOTE}\n")
    if cascade:  # its layers have capped what each source brings
        caps = replace(caps, source_top_k=dict.fromkeys(source_names(), len(result.ranked)))
    if understood.shape is not None:
        caps = replace(caps, full_windows=0)  # a list's items are alike
    choose = select_recap if understood.is_recap else select
    shown = shown_of(understood.question, profile, zone_of(query), redaction=sources.redaction)
    selection = choose(result.ranked, understood.question.terms, caps, sources.tokens, shown)
    stages.done("select")
    kept = [item.scored for item in selection.items]
    if cascade:
        sure, firsts = cascade.confidences, cascade.firsts
    else:
        sure = confidences(kept, result.scored, understood.question, profile, repeated=result.repeated)
        firsts = ()
    answer = answer_of(
        selection,
        answer_confidence(kept, sure, firsts=firsts),
        understood,
        result,
        profile,
        wanted=options.no_answer,
        room_tokens=room_tokens,
        has_external=sources.has_external or asks_others(result.reports),
    )
    selection = answer.selection
    dropped = Counter(result.dropped) + Counter(selection.dropped)
    return replace(
        nothing,
        outcome=_outcome(result.reports, selection),
        selection=replace(selection, dropped=dict(dropped)),
        understood=understood,
        result=result,
        confidence=answer.confidence,
        cascade=cascade,
        withheld=answer.withheld,
        is_unsure=answer.is_unsure,
        has_note=answer.has_note,
        strategy=strategy,
        render=profile.render,
        redaction=sources.redaction,
        metadata=await _metadata(options, selection, sources, scope, timeout_s=timeout_s - stages.seconds),
    )


async def _metadata(
    options: RecallOptionsV1, selection: Selection, sources: Sources, scope: Scope, *, timeout_s: float
) -> Mapping[int, Mapping[str, JsonValue]]:
    """The metadata of the bundle's memories by key, where it is asked for and the record answers in time."""
    if options.include is None or not options.include.metadata or sources.record_facts is None:
        return {}
    shown = {memory_key(scope.tenant, item.scored.memory.id): item.scored for item in selection.items}
    # An item of another store may have the id of a memory of ours, which the query may not see.
    own = {key: one.memory.id for key, one in shown.items() if one.candidate.key == key}
    nothing: Mapping[str, Mapping[str, JsonValue]] = {}
    found = await or_else(sources.record_facts.metadata(scope.tenant, list(own.values())), nothing, timeout_s)
    return {key: found[name] for key, name in own.items() if name in found}


def _outcome(reports: Sequence[SourceReport], selection: Selection) -> Outcome:
    asked = [report for report in reports if report.status != "off"]
    silent = [report for report in asked if report.status in SILENT]
    if len(silent) == len(asked) and not any(report.fallback or report.hits for report in silent):
        return "failed"
    return "degraded" if silent else "ok" if selection.items else "empty"
