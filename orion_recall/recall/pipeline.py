"""The recall pipeline: every step of one query, from understanding to bundle.

understand -> one search pass (`search_pass`), or a pass for each layer of a cascade -> caps and token budget ->
confidence -> bundle

`recall()` is the whole service as one call; the worker calls it for each query on the bus.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.contracts import RecallQueryV1
from orion_recall.errors import SourceError
from orion_recall.profile import Profile
from orion_recall.recall.bundle.select import select
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.cascade.layers import limits_of
from orion_recall.recall.cascade.run import CascadeRun, run_cascade
from orion_recall.recall.confidence.answer import answer_confidence, gate
from orion_recall.recall.confidence.factors import confidences
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.search.fallback import SILENT
from orion_recall.recall.search.requests import NO_OPTIONS, caps_of, scope_of
from orion_recall.recall.search_pass import SearchPass
from orion_recall.recall.stage_times import StageTimes
from orion_recall.recall.types import Recalled, Sources
from orion_recall.recall.understand.question import understand
from orion_recall.values import SOURCE_NAMES, Outcome, Scope, SourceReport

_NO_PROFILES: Mapping[str, Profile] = {}


async def recall(
    query: RecallQueryV1,
    profile: Profile,
    sources: Sources,
    *,
    tenant: str = "default",
    now: float | None = None,
    timeout_s: float = 2.0,
    profiles: Mapping[str, Profile] = _NO_PROFILES,
) -> Recalled:
    """The memories that answer the query, ranked, and those of them that fit into the bundle.

    `now` (epoch seconds) is the query's clock; `options.as_of` wins over it. The same data, profile and clock give
    the same result. `profiles` are the others that layers of a cascade may name. Raises InvalidMessage for a scope
    without its id; a source that fails costs its own hits only. Without a fragment nothing is searched.
    """
    stages = StageTimes()
    applied_position = sources.tombstones.applied_position()  # before the search: the copies move on while it runs
    options = query.options or NO_OPTIONS
    clock = options.as_of.timestamp() if options.as_of else (time.time() if now is None else now)
    scope = scope_of(query, profile, tenant)
    if not query.fragment.strip():
        return _without_fragment(scope, stages)
    understood = understand(query, profile, now=clock, speakers=await _speakers(sources, tenant))
    query_class = understood.classified.query_class
    strategy, profile = profile.strategy_for(query_class), profile.for_class(query_class)
    stages.done("understand")

    async def run_pass(
        profile: Profile, scope: Scope, *, timeout_s: float, is_first: bool = False, given: PassResult | None = None
    ) -> PassResult:
        one = SearchPass(
            query=query,
            understood=understood,
            profile=profile,
            scope=scope,
            sources=sources,
            applied_position=applied_position,
            timeout_s=timeout_s,
            stages=stages if is_first else StageTimes(),
        )
        return await one.run(given)

    cascade: CascadeRun | None = None
    if (limits := limits_of(profile, options, scope, query.session_id, query_class)) is not None:
        cascade = await run_cascade(
            limits, run_pass, profile, understood.question, others=profiles, timeout_s=timeout_s
        )
        stages.done("cascade")
    result = cascade.result if cascade else await run_pass(profile, scope, timeout_s=timeout_s, is_first=True)

    caps = caps_of(profile, options)
    if cascade:
        caps = replace(caps, source_top_k=dict.fromkeys(SOURCE_NAMES, len(result.ranked)))
    selection = select(result.ranked, understood.question.terms, caps, sources.tokens)
    stages.done("select")

    kept = [item.scored for item in selection.items]
    if cascade:
        confidence = answer_confidence(kept, cascade.confidences, firsts=cascade.firsts)
    else:
        items = confidences(kept, result.scored, understood.question, profile, repeated=result.repeated)
        confidence = answer_confidence(kept, items)
    selection, withheld = gate(selection, confidence.overall, profile.no_answer)
    dropped = Counter(result.dropped)
    dropped.update(selection.dropped)
    return Recalled(
        outcome=_outcome(result.reports, selection),
        scope=scope,
        reports=result.reports,
        ranked=result.ranked,
        selection=replace(selection, dropped=dict(+dropped)),
        stage_ms=stages.ms,
        reranking=result.reranking,
        late_interaction=result.late_interaction,
        understood=understood,
        result=result,
        confidence=confidence,
        cascade=cascade,
        withheld=withheld,
        strategy=strategy,
    )


def _without_fragment(scope: Scope, stages: StageTimes) -> Recalled:
    stages.done("understand")
    nothing = Selection(items=(), tokens=0, dropped={})
    return Recalled(outcome="empty", scope=scope, reports=(), ranked=(), selection=nothing, stage_ms=stages.ms)


async def _speakers(sources: Sources, tenant: str) -> frozenset[str]:
    try:
        return await sources.lexicon.speakers(tenant) if sources.lexicon else frozenset()
    except SourceError:
        return frozenset()  # the index is away, and its own sources will report that


def _outcome(reports: Sequence[SourceReport], selection: Selection) -> Outcome:
    asked = [report for report in reports if report.status != "off"]
    silent = [report for report in asked if report.status in SILENT]
    if len(silent) == len(asked) and not any(report.fallback or report.hits for report in silent):
        return "failed"
    if silent:
        return "degraded"
    return "ok" if selection.items else "empty"
