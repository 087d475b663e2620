"""The path of one query, from top to bottom.

understand -> [ search every source at once -> fuse -> fetch, and compare word by word where the profile wants it ->
filter -> follow what the first hits name, where it wants that -> score -> rerank the best, where it wants that ->
reduce near-duplicates ] -> caps and token budget -> confidence -> bundle

What is in brackets is one look at memory. Where a cascade is wanted it is taken for one layer after another.

`recall()` is the whole service as a plain call; the bus is one door to it, not the house.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.errors import InvalidMessage, SourceError
from orion_recall.memory.tombstones import Tombstones
from orion_recall.models.reranker import Reranker
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import CANDIDATES, Profile
from orion_recall.recall.admit import admitted, of_its_time, without_the_dead
from orion_recall.recall.cascade import Descent, descend
from orion_recall.recall.dropped import Dropped
from orion_recall.recall.expand import more_words_wanted
from orion_recall.recall.fetch import fetch, to_be_fetched
from orion_recall.recall.follow import NOTHING, follow
from orion_recall.recall.found import Found
from orion_recall.recall.fuse import fuse
from orion_recall.recall.late import Closeness, late_interaction
from orion_recall.recall.layers import limits_of
from orion_recall.recall.rank import near_duplicates, score_candidates
from orion_recall.recall.rerank import rerank
from orion_recall.recall.search import StandIn, search_all
from orion_recall.recall.select import Caps, select
from orion_recall.recall.stages import Stages
from orion_recall.recall.stand_in import SILENT, index_is_away
from orion_recall.recall.sureness import NOT_SURE, Sureness, Withheld, gate, sureness
from orion_recall.recall.understand import Understanding, understand
from orion_recall.recall.within import SearchWithin
from orion_recall.sources.breaker import Breaker
from orion_recall.sources.source import Lexicon, MemoryReader, Source, TitleFinder
from orion_recall.values import (
    SOURCE_NAMES,
    Candidate,
    Interval,
    LateReport,
    Outcome,
    QueryClass,
    Question,
    RerankReport,
    Scope,
    ScoredCandidate,
    SearchRequest,
    Selection,
    SourceName,
    SourceReport,
)

_NO_OPTIONS = RecallOptionsV1()
_NO_PROFILES: Mapping[str, Profile] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a recall searches and reads: the arms by name, and what they stand on.

    The first reader that answers gives the memories; the others are for when it cannot. `standing_by` is searched
    while the index is away. What the `tombstones` hide is left out, whoever finds it.
    """

    arms: Mapping[SourceName, Source]
    tokens: TokenCounter
    readers: tuple[MemoryReader, ...] = ()
    lexicon: Lexicon | None = None
    titles: TitleFinder | None = None
    standing_by: StandIn | None = None
    breakers: Mapping[SourceName, Breaker] = field(
        default_factory=lambda: {name: Breaker() for name in SOURCE_NAMES}
    )
    reranker: Reranker | None = None
    rerank_breaker: Breaker = field(default_factory=Breaker)
    late: Closeness | None = None
    late_breaker: Breaker = field(default_factory=Breaker)
    tombstones: Tombstones = field(default_factory=Tombstones)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """Everything one recall found out. `ranked` is the order before caps and budget, `selection` what was kept.

    `reranking` and `late` are None where the profile does not want any, `strategy` where it has none for the
    question's class, `descent` without a cascade, `withheld` where what was found is not too unsure to be handed
    over. `found` is for those who ask why.
    """

    outcome: Outcome
    scope: Scope
    reports: tuple[SourceReport, ...]
    ranked: tuple[ScoredCandidate, ...]
    selection: Selection
    stage_ms: Mapping[str, float]
    reranking: RerankReport | None = None
    late: LateReport | None = None
    understood: Understanding | None = None
    found: Found | None = None
    sure: Sureness = NOT_SURE
    descent: Descent | None = None
    withheld: Withheld | None = None
    strategy: QueryClass | None = None

    @property
    def rendered(self) -> str:
        """The bundle as prompt text: one bullet a line, "" when there is nothing."""
        return "\n".join(item.line for item in self.selection.items)


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
    """Everything remembered about the query, ranked, and the part of it that fits.

    `now` (epoch seconds) is the query's clock; `options.as_of` wins over it. The same data, profile and clock give
    the same result. `profiles` are the others that layers of a cascade may name. Raises InvalidMessage for a scope
    without its id; a source that fails costs its own hits only.
    """
    stages = Stages()
    floor = sources.tombstones.floor()  # before the search: the copies move on while it runs
    options = query.options or _NO_OPTIONS
    clock = options.as_of.timestamp() if options.as_of else (time.time() if now is None else now)
    scope = scope_of(query, profile, tenant)
    understood = understand(query, profile, now=clock, speakers=await _speakers(sources, tenant))
    query_class = understood.classified.query_class
    strategy, profile = profile.strategy_for(query_class), profile.for_class(query_class)
    stages.done("understand")

    async def look(
        profile: Profile, scope: Scope, *, timeout_s: float, is_first: bool = False, given: Found | None = None
    ) -> Found:
        own = stages if is_first else Stages()
        asking = (query, understood, profile, scope, sources)
        return await _look(*asking, floor=floor, timeout_s=timeout_s, stages=own, given=given)

    descent: Descent | None = None
    if (limits := limits_of(profile, options, scope, query.session_id, query_class)) is not None:
        descent = await descend(limits, look, profile, understood.question, others=profiles, timeout_s=timeout_s)
        stages.done("cascade")
    found = descent.found if descent else await look(profile, scope, timeout_s=timeout_s, is_first=True)

    caps = _caps(profile, options)
    if descent:
        caps = replace(caps, source_top_k=dict.fromkeys(SOURCE_NAMES, len(found.ranked)))
    selection = select(found.ranked, understood.question.terms, caps, sources.tokens)
    stages.done("select")

    sure = sureness(selection, found, understood.question, profile, descent)
    selection, withheld = gate(selection, sure.overall, profile.no_answer)
    dropped = Counter(found.dropped)
    dropped.update(selection.dropped)
    return Recalled(
        outcome=_outcome(found.reports, selection),
        scope=scope,
        reports=found.reports,
        ranked=found.ranked,
        selection=replace(selection, dropped=dict(+dropped)),
        stage_ms=stages.ms,
        reranking=found.reranking,
        late=found.late,
        understood=understood,
        found=found,
        sure=sure,
        descent=descent,
        withheld=withheld,
        strategy=strategy,
    )


async def _look(
    query: RecallQueryV1,
    understood: Understanding,
    profile: Profile,
    scope: Scope,
    sources: Sources,
    *,
    floor: float,
    timeout_s: float,
    stages: Stages,
    given: Found | None = None,
) -> Found:
    """One look at memory: everything that the profile's sources find in the scope, ranked.

    What was `given`, found by other looks, is ranked without another search.
    """
    options, clock = query.options or _NO_OPTIONS, understood.question.now
    source_timeout_s = min(timeout_s, profile.source_timeout_ms / 1000)
    requests = _requests(understood.question, scope, profile, options, source_timeout_s)
    if given is None:
        intervals = understood.question.time.intervals if profile.time.search_weight else ()
        reports, within = await _search(sources, profile, requests, intervals, timeout_s=source_timeout_s)
    else:
        reports, within = list(given.reports), list(given.within)
    stages.done("search")

    weights: dict[SourceName, float] = profile.fusion.weights.model_dump()  # pyright: ignore[reportAssignmentType]
    limit = max(profile.rank_pool, options.k or profile.max_total_items)
    pool = fuse(
        reports,
        method=profile.fusion.method,
        k=profile.fusion.k,
        weights=weights,
        limit=limit,
        within=within,
        within_weight=profile.time.search_weight,
    )
    stages.done("fuse")

    left_s = timeout_s - stages.seconds
    fetching = fetch(to_be_fetched(pool, reports), sources.readers, timeout_s=left_s)
    closeness: Mapping[int, float] = {}
    late: LateReport | None = None
    if profile.ranking.late:
        comparing = late_interaction(
            understood.question.dense_text,
            [candidate.key for candidate in pool],
            sources.late,
            sources.late_breaker,
            timeout_s=min(left_s, source_timeout_s),
            is_away=index_is_away(reports),
        )
        memories, (closeness, late) = await asyncio.gather(fetching, comparing)
    else:
        memories = await fetching
    stages.done("fetch")

    dropped = Dropped()
    alive = without_the_dead(pool, sources.tombstones, floor, dropped)
    kept = admitted(alive, memories, scope, understood.question, options, dropped)
    similarities = _similarities([*reports, *within], pool)
    followed = NOTHING
    if profile.ranking.follows:
        followed = await follow(
            kept,
            understood.question,
            requests,
            reports,
            ranking=profile.ranking,
            arms=sources.arms,
            titles=sources.titles,
            similarities=similarities,
            timeout_s=min(source_timeout_s, timeout_s - stages.seconds),
        )
        further = without_the_dead(followed.further, sources.tombstones, floor, dropped)
        led_to = await fetch(
            [candidate.key for candidate in further], sources.readers, timeout_s=timeout_s - stages.seconds
        )
        memories = {**memories, **led_to}
        kept = [*kept, *admitted(further, memories, scope, understood.question, options, dropped)]
        stages.done("follow")
    if profile.time.filter:
        kept = of_its_time(kept, understood.question, dropped)
    scored = score_candidates(
        kept,
        profile,
        now=clock,
        named_speaker=understood.named_speaker,
        similarities=similarities,
        time=understood.question.time,
        session_id=query.session_id,
        further={"late": closeness} if closeness else {},
        followed=followed.parts,
    )
    reranking: RerankReport | None = None
    if profile.rerank.enabled:
        stages.done("score")
        scored, reranking = await rerank(
            scored,
            understood.question.text,
            profile,
            sources.reranker,
            sources.rerank_breaker,
            timeout_s=timeout_s - stages.seconds,
        )
        stages.done("rerank")
    ranked = _reduced(scored, profile, options, dropped)
    stages.done("rank")

    pool = [*pool, *followed.further]
    found = Found(
        reports=tuple(reports),
        within=tuple(within),
        pool=pool,
        memories=memories,
        scored=scored,
        ranked=tuple(ranked),
        dropped=dropped,
        reranking=reranking,
        late=late,
    )
    dropped["rank_pool"] += len(found.keys.difference(candidate.key for candidate in pool))
    return found


async def _search(
    sources: Sources,
    profile: Profile,
    requests: Mapping[SourceName, SearchRequest],
    intervals: Sequence[Interval],
    *,
    timeout_s: float,
) -> tuple[list[SourceReport], list[SourceReport]]:
    """Every source at once, and the index once more inside the time that the question names."""
    until = time.perf_counter() + timeout_s
    async with SearchWithin(sources.arms, requests, intervals) as searches:
        reports = await search_all(
            sources.arms,
            requests,
            sources.breakers,
            timeout_s=timeout_s,
            retries=profile.source_retries,
            standing_by=sources.standing_by,
        )
        within = await searches.found(reports, until=until)
    return reports, within


def scope_of(query: RecallQueryV1, profile: Profile, tenant: str) -> Scope:
    """What the query may see. InvalidMessage for scope session or user without its id."""
    options = query.options or _NO_OPTIONS
    name = options.scope or profile.scope
    if name == "session" and query.session_id is None:
        raise InvalidMessage("payload.options.scope: session needs payload.session_id")
    if name == "user" and options.user is None:
        raise InvalidMessage("payload.options.scope: user needs payload.options.user")
    return Scope(
        tenant=tenant,
        session_id=query.session_id if name == "session" else None,
        user_id=options.user if name == "user" else None,
        kinds=options.kinds,
        tags=options.tags,
        since=options.since.timestamp() if options.since else None,
        until=options.until.timestamp() if options.until else None,
    )


async def _speakers(sources: Sources, tenant: str) -> frozenset[str]:
    try:
        return await sources.lexicon.speakers(tenant) if sources.lexicon else frozenset()
    except SourceError:
        return frozenset()  # the index is away, and its own arms will say so


def _requests(
    question: Question, scope: Scope, profile: Profile, options: RecallOptionsV1, timeout_s: float
) -> dict[SourceName, SearchRequest]:
    """One request for every source that the profile has switched on."""
    limit = CANDIDATES[options.budget or profile.budget]
    return {
        name: SearchRequest(
            question=question,
            scope=scope,
            limit=limit,
            timeout_s=timeout_s,
            min_score=profile.min_similarity,
            window_minutes=profile.sql_since_minutes,
            hops=profile.graph.hops,
            max_entities=profile.graph.max_entities,
            max_statements=profile.graph.max_statements,
            more_words=more_words_wanted(profile),
            similar_entities=profile.graph.similar_entities,
            graph_arm=profile.graph.arm,
        )
        for name in profile.sources_on
    }


def _similarities(reports: Sequence[SourceReport], pool: Sequence[Candidate]) -> Mapping[int, float]:
    """The cosines of all that the dense search found. What was found in its place has none, only its rank."""
    by_meaning = [report for report in reports if report.source == "vector"]
    if by_meaning and all(report.stood_in is None for report in by_meaning):
        return {hit.key: hit.score for report in by_meaning for hit in report.hits}
    for candidate in pool:
        candidate.scores.pop("vector", None)
    return {}


def _reduced(
    scored: Sequence[ScoredCandidate], profile: Profile, options: RecallOptionsV1, dropped: Dropped
) -> list[ScoredCandidate]:
    min_score = profile.min_score if options.min_score is None else options.min_score
    high_enough: list[ScoredCandidate] = []
    for item in scored:
        if item.score >= min_score:
            high_enough.append(item)
        else:
            dropped.note("below_min_score", item.candidate.key)
    repeated = near_duplicates(high_enough, profile.near_duplicate_similarity)
    for place, kept in repeated.items():
        dropped.note("near_duplicate", high_enough[place].candidate.key, for_key=high_enough[kept].candidate.key)
    return [item for place, item in enumerate(high_enough) if place not in repeated]


def _caps(profile: Profile, options: RecallOptionsV1) -> Caps:
    return Caps(
        source_top_k={
            "vector": profile.vector_top_k,
            "lexical": profile.effective_lexical_top_k,
            "rdf": profile.rdf_top_k,
            "sql_timeline": profile.sql_top_k,
        },
        max_per_source=profile.max_per_source,
        max_total_items=options.k or profile.max_total_items,
        budget_tokens=options.max_tokens or profile.render_budget_tokens,
        snippet_tokens=profile.snippet_tokens,
        over_budget=profile.over_budget,
    )


def _outcome(reports: Sequence[SourceReport], selection: Selection) -> Outcome:
    asked = [report for report in reports if report.status != "off"]
    silent = [report for report in asked if report.status in SILENT]
    if len(silent) == len(asked) and not any(report.stood_in or report.hits for report in silent):
        return "failed"
    if silent:
        return "degraded"
    return "ok" if selection.items else "empty"
