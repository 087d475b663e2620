"""The path of one query, from top to bottom.

understand -> [ search every source at once -> fuse -> fetch, and compare word by word where the profile wants it ->
filter -> compare what the index does not hold, where there is such -> follow what the first hits name, where the
profile wants that -> score -> rerank the best, where it wants that -> reduce near-duplicates ] -> caps and token
budget -> confidence -> bundle

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
from orion_recall.errors import SourceError
from orion_recall.interfaces import Lexicon, MemoryReader, Source, TitleFinder
from orion_recall.memory.replicas.tombstones import Tombstones
from orion_recall.models.reranker import Reranker
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile import Profile
from orion_recall.recall.bundle.select import select
from orion_recall.recall.candidates.fetch import fetch, to_be_fetched
from orion_recall.recall.candidates.filters import LeftOut, admitted, of_its_time, without_the_dead
from orion_recall.recall.candidates.fuse import WITH_TEXT, Fusing, fuse, similarities_of
from orion_recall.recall.candidates.unindexed import (
    NONE_UNINDEXED,
    ComparesTexts,
    compared,
    fused_anew,
    has_unindexed,
    with_unindexed,
    without_indexed,
)
from orion_recall.recall.cascade.layers import limits_of
from orion_recall.recall.cascade.run import Descent, descend
from orion_recall.recall.confidence.answer import NOT_SURE, Sureness, Withheld, gate, sureness
from orion_recall.recall.dropped import Dropped
from orion_recall.recall.pass_result import Found
from orion_recall.recall.ranking.late_interaction import Closeness, late_interaction, scaled
from orion_recall.recall.ranking.rerank import rerank
from orion_recall.recall.ranking.score import near_duplicates, score_candidates
from orion_recall.recall.search.all_sources import StandIn, search_all
from orion_recall.recall.search.fallback import SILENT, index_is_away
from orion_recall.recall.search.follow_up import NOTHING, Followed, follow
from orion_recall.recall.search.requests import NO_OPTIONS, caps_of, requests_of, scope_of
from orion_recall.recall.search.time_search import SearchWithin
from orion_recall.recall.stage_times import Stages
from orion_recall.recall.understand.question import Understanding, understand
from orion_recall.sources.breaker import Breaker
from orion_recall.values import (
    SOURCE_NAMES,
    Candidate,
    LateReport,
    MemoryView,
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

_NO_PROFILES: Mapping[str, Profile] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a recall searches and reads: the arms by name, and what they stand on.

    The first reader that answers gives the memories; the others are for when it cannot. `standing_by` is searched
    while the index is away. What the `tombstones` hide is left out, whoever finds it. `texts` compares the question
    with what the index does not hold; without it, such a candidate has only what its source told.
    `has_others`: stores of others may bring hits; where it is False, no room is kept for what the index lacks.
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
    texts: ComparesTexts | None = None
    has_others: bool = True
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
    without its id; a source that fails costs its own hits only. Without a fragment nothing is searched.
    """
    stages = Stages()
    floor = sources.tombstones.floor()  # before the search: the copies move on while it runs
    options = query.options or NO_OPTIONS
    clock = options.as_of.timestamp() if options.as_of else (time.time() if now is None else now)
    scope = scope_of(query, profile, tenant)
    if not query.fragment.strip():
        return _nothing_asked(scope, stages)
    understood = understand(query, profile, now=clock, speakers=await _speakers(sources, tenant))
    query_class = understood.classified.query_class
    strategy, profile = profile.strategy_for(query_class), profile.for_class(query_class)
    stages.done("understand")

    async def look(
        profile: Profile, scope: Scope, *, timeout_s: float, is_first: bool = False, given: Found | None = None
    ) -> Found:
        one = _Look(
            query=query,
            understood=understood,
            profile=profile,
            scope=scope,
            sources=sources,
            floor=floor,
            timeout_s=timeout_s,
            stages=stages if is_first else Stages(),
        )
        return await one.found(given)

    descent: Descent | None = None
    if (limits := limits_of(profile, options, scope, query.session_id, query_class)) is not None:
        descent = await descend(limits, look, profile, understood.question, others=profiles, timeout_s=timeout_s)
        stages.done("cascade")
    found = descent.found if descent else await look(profile, scope, timeout_s=timeout_s, is_first=True)

    caps = caps_of(profile, options)
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


def _nothing_asked(scope: Scope, stages: Stages) -> Recalled:
    stages.done("understand")
    nothing = Selection(items=(), tokens=0, dropped={})
    return Recalled(outcome="empty", scope=scope, reports=(), ranked=(), selection=nothing, stage_ms=stages.ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One look at memory: everything that the profile's sources find in the scope, ranked."""

    query: RecallQueryV1
    understood: Understanding
    profile: Profile
    scope: Scope
    sources: Sources
    floor: float
    timeout_s: float
    stages: Stages
    dropped: Dropped = field(default_factory=Dropped)

    @property
    def question(self) -> Question:
        return self.understood.question

    @property
    def options(self) -> RecallOptionsV1:
        return self.query.options or NO_OPTIONS

    @property
    def left_s(self) -> float:
        return self.timeout_s - self.stages.seconds

    @property
    def source_timeout_s(self) -> float:
        return min(self.timeout_s, self.profile.source_timeout_ms / 1000)

    async def found(self, given: Found | None = None) -> Found:
        """What was `given`, found by other looks, is ranked without another search."""
        asked = requests_of(self.question, self.scope, self.profile, self.options, self.source_timeout_s)
        reports, within = await self._search(asked) if given is None else (given.reports, given.within)
        self.stages.done("search")
        with_text = WITH_TEXT if self.sources.has_others else 0
        pool = fuse(reports, limit=self._most, with_text=with_text, within=within, **self._fusing)
        self.stages.done("fuse")
        memories, closeness, late = await self._read(pool, reports)
        pool = without_indexed(pool, self._most, memories, reports)
        self.stages.done("fetch")

        kept = self._admit(pool, memories)
        similarities = similarities_of([*reports, *within], pool)
        unindexed = NONE_UNINDEXED
        if has_unindexed(kept, memories, reports):
            found = [one for one in kept if one[0].key not in memories]
            unindexed = await compared(
                found,
                self.question,
                self.sources.texts,
                # With what the index could not compare there is nothing to compare it with.
                wants_late=late is not None and late.status in ("ok", "empty"),
                timeout_s=min(self.left_s, self.source_timeout_s),
            )
            kept = fused_anew(kept, unindexed, reports, within, self._fusing)
            closeness, late = with_unindexed(closeness, late, unindexed)
            self.stages.done("compare")
        followed = NOTHING
        if self.profile.ranking.follows:
            followed, led_to = await self._follow(kept, asked, reports, similarities)
            memories = {**memories, **led_to}
            kept = [*kept, *self._admit(followed.further, memories)]
            self.stages.done("follow")
        if self.profile.time.filter:
            kept = of_its_time(kept, self.question, self.dropped)

        scored = score_candidates(
            kept,
            self.profile,
            now=self.question.now,
            named_speaker=self.understood.named_speaker,
            similarities=similarities,
            time=self.question.time,
            answer_type=self.question.answer_type,
            session_id=self.query.session_id,
            further={"late": scaled(closeness)} if closeness else {},
            followed=followed.parts,
            unindexed=unindexed.keys,
        )
        scored, reranking = await self._rerank(scored)
        ranked = self._reduce(scored)
        self.stages.done("rank")
        whole = Found(
            reports=tuple(reports),
            within=tuple(within),
            pool=[*pool, *followed.further],
            memories=memories,
            scored=scored,
            ranked=tuple(ranked),
            dropped=self.dropped,
            reranking=reranking,
            late=late,
        )
        self.dropped["rank_pool"] += len(whole.keys.difference(candidate.key for candidate in whole.pool))
        return whole

    async def _search(
        self, requests: Mapping[SourceName, SearchRequest]
    ) -> tuple[Sequence[SourceReport], Sequence[SourceReport]]:
        """Every source at once, and the index once more inside the time that the question names."""
        until = time.perf_counter() + self.source_timeout_s
        intervals = self.question.time.intervals if self.profile.time.search_weight else ()
        async with SearchWithin(self.sources.arms, requests, intervals) as searches:
            reports = await search_all(
                self.sources.arms,
                requests,
                self.sources.breakers,
                timeout_s=self.source_timeout_s,
                retries=self.profile.source_retries,
                standing_by=self.sources.standing_by,
            )
            return reports, await searches.found(reports, until=until)

    @property
    def _most(self) -> int:
        """Of what was fused, so many are ranked in full."""
        return max(self.profile.rank_pool, self.options.k or self.profile.max_total_items)

    @property
    def _fusing(self) -> Fusing:
        fusion = self.profile.fusion
        weights: dict[SourceName, float] = fusion.weights.model_dump()  # pyright: ignore[reportAssignmentType]
        return {
            "method": fusion.method,
            "k": fusion.k,
            "weights": weights,
            "within_weight": self.profile.time.search_weight,
        }

    async def _read(
        self, pool: Sequence[Candidate], reports: Sequence[SourceReport]
    ) -> tuple[Mapping[int, MemoryView], Mapping[int, float], LateReport | None]:
        """The candidates' memories; meanwhile, where it is wanted, how close their words are to the question's."""
        fetching = fetch(to_be_fetched(pool, reports), self.sources.readers, timeout_s=self.left_s)
        if not self.profile.ranking.late:
            return await fetching, {}, None
        comparing = late_interaction(
            self.question.dense_text,
            [candidate.key for candidate in pool[: self._most]],
            self.sources.late,
            self.sources.late_breaker,
            timeout_s=min(self.left_s, self.source_timeout_s),
            is_away=index_is_away(reports),
        )
        memories, (closeness, late) = await asyncio.gather(fetching, comparing)
        return memories, closeness, late

    def _admit(
        self, pool: Sequence[Candidate], memories: Mapping[int, MemoryView]
    ) -> list[tuple[Candidate, MemoryView]]:
        alive = without_the_dead(pool, self.sources.tombstones, self.floor, self.dropped)
        left_out = LeftOut.of(self.query, self.question.now)
        return admitted(alive, memories, self.scope, self.question, left_out, self.dropped)

    async def _follow(
        self,
        kept: Sequence[tuple[Candidate, MemoryView]],
        requests: Mapping[SourceName, SearchRequest],
        reports: Sequence[SourceReport],
        similarities: Mapping[int, float],
    ) -> tuple[Followed, Mapping[int, MemoryView]]:
        """What the first hits lead to, and the memories of it that were not among them."""
        followed = await follow(
            kept,
            self.question,
            requests,
            reports,
            ranking=self.profile.ranking,
            arms=self.sources.arms,
            titles=self.sources.titles,
            similarities=similarities,
            timeout_s=min(self.source_timeout_s, self.left_s),
        )
        keys = [candidate.key for candidate in followed.further]
        return followed, await fetch(keys, self.sources.readers, timeout_s=self.left_s)

    async def _rerank(
        self, scored: Sequence[ScoredCandidate]
    ) -> tuple[Sequence[ScoredCandidate], RerankReport | None]:
        if not self.profile.rerank.enabled:
            return scored, None
        self.stages.done("score")
        judged = await rerank(
            scored,
            self.question.text,
            self.profile,
            self.sources.reranker,
            self.sources.rerank_breaker,
            timeout_s=self.left_s,
        )
        self.stages.done("rerank")
        return judged

    def _reduce(self, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """Without what scores too low, and what says the same as a better one."""
        wanted = self.options.min_score
        min_score = self.profile.min_score if wanted is None else wanted
        high_enough: list[ScoredCandidate] = []
        for item in scored:
            if item.score >= min_score:
                high_enough.append(item)
            else:
                self.dropped.note("below_min_score", item.candidate.key)
        repeated = near_duplicates(high_enough, self.profile.near_duplicate_similarity)
        for place, first in repeated.items():
            better = high_enough[first].candidate.key
            self.dropped.note("near_duplicate", high_enough[place].candidate.key, for_key=better)
        return [item for place, item in enumerate(high_enough) if place not in repeated]


async def _speakers(sources: Sources, tenant: str) -> frozenset[str]:
    try:
        return await sources.lexicon.speakers(tenant) if sources.lexicon else frozenset()
    except SourceError:
        return frozenset()  # the index is away, and its own arms will say so


def _outcome(reports: Sequence[SourceReport], selection: Selection) -> Outcome:
    asked = [report for report in reports if report.status != "off"]
    silent = [report for report in asked if report.status in SILENT]
    if len(silent) == len(asked) and not any(report.stood_in or report.hits for report in silent):
        return "failed"
    if silent:
        return "degraded"
    return "ok" if selection.items else "empty"
