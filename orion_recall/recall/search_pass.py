"""The search pass: every source searched once, and what they find fused, scored and ranked.

search every source at once -> fuse -> fetch the memories, with late interaction at the same time -> filter ->
compare memories that the index does not hold -> follow-up search -> score -> rerank -> drop near-duplicates

Late interaction, the comparison, the follow-up search and reranking are done where profile and hits call for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.recall.candidates.fetch import fetch, keys_to_fetch
from orion_recall.recall.candidates.filters import Exclusions, in_asked_time, visible, without_deleted
from orion_recall.recall.candidates.fuse import WITH_TEXT, Fusing, fuse, similarities_of
from orion_recall.recall.candidates.unindexed import (
    NONE_UNINDEXED,
    Unindexed,
    compared,
    fused_with_unindexed,
    has_unindexed,
    limited,
    with_unindexed,
)
from orion_recall.recall.pass_result import Dropped, PassResult
from orion_recall.recall.ranking.late_interaction import late_interaction, scaled
from orion_recall.recall.ranking.near_duplicates import near_duplicates
from orion_recall.recall.ranking.reports import LateInteractionReport, RerankReport
from orion_recall.recall.ranking.rerank import rerank
from orion_recall.recall.ranking.score import score_candidates
from orion_recall.recall.search.all_sources import search_all
from orion_recall.recall.search.fallback import index_is_away
from orion_recall.recall.search.follow_up import NO_FOLLOW_UP, FollowUp, follow_up
from orion_recall.recall.search.requests import NO_OPTIONS, requests_of
from orion_recall.recall.search.time_search import TimeSearch
from orion_recall.recall.stage_times import StageTimes
from orion_recall.recall.types import Sources
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, ScoredCandidate
from orion_recall.scoring.part_values import QueryFacts
from orion_recall.values import MemoryView, Question, Scope, SearchRequest, SourceName, SourceReport

Pairs = Sequence[tuple[Candidate, MemoryView]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPass:
    """One pass over the profile's sources in one scope; `run` it once.

    `applied_position` is the tombstones' position from before the search.
    """

    query: RecallQueryV1
    understood: Understanding
    profile: Profile
    scope: Scope
    sources: Sources
    applied_position: float
    timeout_s: float
    stages: StageTimes
    dropped: Dropped = field(default_factory=Dropped)

    @property
    def question(self) -> Question:
        """The question that is searched for."""
        return self.understood.question

    @property
    def options(self) -> RecallOptionsV1:
        """The query's options, or the defaults."""
        return self.query.options or NO_OPTIONS

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.timeout_s - self.stages.seconds

    @property
    def source_timeout_s(self) -> float:
        """Seconds that one source may take."""
        return min(self.timeout_s, self.profile.source_timeout_ms / 1000)

    async def run(self, given: PassResult | None = None) -> PassResult:
        """The pass from search to ranking. With `given`, the hits of other passes are ranked without a search."""
        requests = requests_of(self.question, self.scope, self.profile, self.options, self.source_timeout_s)
        reports, within = await self._search(requests) if given is None else (given.reports, given.within)
        self.stages.done("search")
        with_text = WITH_TEXT if self.sources.has_external else 0
        pool = fuse(reports, limit=self._most, with_text=with_text, within=within, **self._fusing)
        self.stages.done("fuse")
        memories, closeness, late = await self._read(pool, reports)
        pool = limited(pool, self._most, memories, reports)
        self.stages.done("fetch")

        kept: Pairs = self._filter(pool, memories)
        similarities = similarities_of([*reports, *within], pool)
        unindexed = NONE_UNINDEXED
        if has_unindexed(kept, memories, reports):
            unindexed = await self._compare(kept, memories, late)
            kept = fused_with_unindexed(kept, unindexed, reports, within, self._fusing)
            closeness, late = with_unindexed(closeness, late, unindexed)
            self.stages.done("compare")
        followed = NO_FOLLOW_UP
        if self.profile.ranking.follows:
            followed, found = await self._follow_up(kept, requests, reports, similarities)
            memories = {**memories, **found}
            kept = [*kept, *self._filter(followed.further, memories)]
            self.stages.done("follow")
        if self.profile.time.filter:
            kept = in_asked_time(kept, self.question, self.dropped)

        facts = QueryFacts(
            now=self.question.now,
            named_speaker=self.understood.named_speaker,
            similarities=similarities,
            time=self.question.time,
            answer_type=self.question.answer_type,
            session_id=self.query.session_id,
            late=scaled(closeness),
            followed=followed.parts,
            unindexed=unindexed.keys,
        )
        scored, reranking = await self._rerank(score_candidates(kept, self.profile, facts))
        ranked = self._reduce(scored)
        self.stages.done("rank")
        result = PassResult(
            reports=tuple(reports),
            within=tuple(within),
            pool=[*pool, *followed.further],
            memories=memories,
            scored=scored,
            ranked=tuple(ranked),
            dropped=self.dropped,
            reranking=reranking,
            late_interaction=late,
        )
        self.dropped["rank_pool"] += len(result.keys.difference(candidate.key for candidate in result.pool))
        return result

    async def _search(
        self, requests: Mapping[SourceName, SearchRequest]
    ) -> tuple[Sequence[SourceReport], Sequence[SourceReport]]:
        """The reports of every source, and those of the time search."""
        until = time.perf_counter() + self.source_timeout_s
        intervals = self.question.time.intervals if self.profile.time.search_weight else ()
        async with TimeSearch(self.sources.by_name, requests, intervals) as searches:
            reports = await search_all(
                self.sources.by_name,
                requests,
                self.sources.breakers,
                timeout_s=self.source_timeout_s,
                retries=self.profile.source_retries,
                fallback=self.sources.fallback,
            )
            return reports, await searches.reports(reports, until=until)

    @property
    def _most(self) -> int:
        """The number of fused candidates that are ranked in full."""
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
    ) -> tuple[Mapping[int, MemoryView], Mapping[int, float], LateInteractionReport | None]:
        """The candidates' memories, and at the same time late interaction, where the profile has it on."""
        fetching = fetch(keys_to_fetch(pool, reports), self.sources.readers, timeout_s=self.left_s)
        if not self.profile.ranking.late:
            return await fetching, {}, None
        comparing = late_interaction(
            self.question.dense_text,
            [candidate.key for candidate in pool[: self._most]],
            self.sources.late_interaction,
            self.sources.late_breaker,
            timeout_s=min(self.left_s, self.source_timeout_s),
            is_away=index_is_away(reports),
        )
        memories, (closeness, late) = await asyncio.gather(fetching, comparing)
        return memories, closeness, late

    def _filter(
        self, pool: Sequence[Candidate], memories: Mapping[int, MemoryView]
    ) -> list[tuple[Candidate, MemoryView]]:
        live = without_deleted(pool, self.sources.tombstones, self.applied_position, self.dropped)
        exclusions = Exclusions.of(self.query, self.question.now)
        return visible(live, memories, self.scope, self.question, exclusions, self.dropped)

    async def _compare(
        self, kept: Pairs, memories: Mapping[int, MemoryView], late: LateInteractionReport | None
    ) -> Unindexed:
        return await compared(
            [one for one in kept if one[0].key not in memories],
            self.question,
            self.sources.texts,
            # Without late interaction of indexed memories there is nothing to compare its scores with.
            wants_late=late is not None and late.status in ("ok", "empty"),
            timeout_s=min(self.left_s, self.source_timeout_s),
        )

    async def _follow_up(
        self,
        kept: Pairs,
        requests: Mapping[SourceName, SearchRequest],
        reports: Sequence[SourceReport],
        similarities: Mapping[int, float],
    ) -> tuple[FollowUp, Mapping[int, MemoryView]]:
        """The follow-up search, and the memories of its further candidates."""
        followed = await follow_up(
            kept,
            self.question,
            requests,
            reports,
            ranking=self.profile.ranking,
            sources=self.sources.by_name,
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
        """The candidates without too low scores and without near-duplicates of better ones."""
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
