"""The search pass: every source searched once, and what they find fused, scored and ranked.

search every source at once -> fuse -> fetch the memories, with late interaction at the same time -> filter ->
compare memories that the index does not hold -> follow-up search -> score -> rerank -> drop near-duplicates

Late interaction, the comparison, the follow-up search and reranking are done where profile and hits call for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orion_recall.contracts import RecallOptionsV1, RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.profile.sections import section_values
from orion_recall.recall.candidates.fetch import fetch, keys_to_fetch, nearest_passages, with_passages
from orion_recall.recall.candidates.filters import Exclusions, answering, visible, without_deleted
from orion_recall.recall.candidates.fuse import (
    WITH_TEXT,
    Fusing,
    decay_of,
    fuse,
    newest_favoured,
    similarities_of,
    with_decay,
)
from orion_recall.recall.candidates.unindexed import (
    NONE_UNINDEXED,
    Unindexed,
    compared,
    fused_with_unindexed,
    has_unindexed,
    limited,
    with_told_times,
    with_unindexed,
)
from orion_recall.recall.pass_result import Dropped, ModelReport, PassResult, StageTimes
from orion_recall.recall.ranking.model_scores import (
    late_interaction,
    rerank,
    scaled,
)
from orion_recall.recall.ranking.score import evidence_of, facts_of, in_recap, reduced, score_candidates
from orion_recall.recall.search.all_sources import MOST_KINDS, index_is_away, search_all
from orion_recall.recall.search.follow_up import NO_FOLLOW_UP, FollowUp, follow_up
from orion_recall.recall.search.further_lists import (
    REPORTS_WEIGHT,
    Further,
    reports_of_others,
    requests_of_speaker,
    time_requests,
    with_further,
)
from orion_recall.recall.search.period import (
    MOST_OF_PERIOD,
    is_answered,
    is_of_period,
    keys_of_period,
    of_period,
    tries,
    with_listed,
)
from orion_recall.recall.search.requests import NO_OPTIONS, TimeLimits, requests_of
from orion_recall.recall.successors import successors_first, with_successors
from orion_recall.recall.types import Sources
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, QueryFacts, ScoredCandidate
from orion_recall.tasks import both
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
    limits: TimeLimits
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
        return self.limits.pass_s - self.stages.seconds

    async def run(self, given: PassResult | None = None) -> PassResult:
        """The pass from search to ranking. With `given`, the hits of other passes are ranked without a search."""
        requests = requests_of(self.question, self.scope, self.profile, self.options, self.limits)
        listed: Sequence[int] = ()
        if is_of_period(self.understood):
            requests = of_period(requests, self.question.time.intervals)
            listed = await self._listed(requests) if given is None else [one.key for one in given.pool]
        reports, within = await self._search(requests) if given is None else (given.reports, given.within)
        self.stages.done("search")
        decay = decay_of(self.profile, self.question.now)
        limit = self._most if decay is None else None  # the ages of candidates are not known yet
        text = WITH_TEXT if self.sources.has_external else 0
        fusing = self._fusing
        pool = fuse(reports, limit=limit, with_text=text, within=within, **fusing)
        pool = await newest_favoured(pool, decay, self._most, reports, self.sources.readers, self.left_s)
        pool = with_listed(pool, listed)
        self.stages.done("fuse")
        memories, closeness, late = await self._read(pool, reports)
        pool = limited(pool, self._most, memories, reports)
        self.stages.done("fetch")

        kept, told_unknown = with_told_times(self._filter(pool, memories), memories, self.question)
        similarities = similarities_of([*reports, *within], pool)
        unindexed = NONE_UNINDEXED
        if has_unindexed(kept, memories, reports):
            unindexed = await self._compare(kept, memories, late)
            kept = fused_with_unindexed(kept, unindexed, reports, within, fusing)
            closeness, late = with_unindexed(closeness, late, unindexed)
            self.stages.done("compare")
        kept = with_decay(kept, decay)
        followed = NO_FOLLOW_UP
        if self.profile.ranking.follows and not is_of_period(self.understood):
            followed, found = await self._follow_up(kept, requests, reports, similarities)
            memories = {**memories, **found}
            kept = [*kept, *self._filter(followed.further, memories)]
            self.stages.done("follow")
        kept, memories = await with_successors(
            kept,
            memories,
            self.profile.superseded,
            now=self.question.now,
            readers=self.sources.readers,
            visible=self._filter,
            dropped=self.dropped,
            timeout_s=self.left_s,
        )
        kept = answering(kept, self.understood, self.profile, self.dropped)
        facts = facts_of(
            self.understood,
            similarities=similarities,
            late=scaled(closeness),
            followed=followed.parts,
            unindexed=unindexed.keys,
            told_unknown=told_unknown,
            evidence=await evidence_of(
                [candidate.key for candidate, _ in kept],
                self.scope.tenant,
                self.sources.evidence,
                weight=self.profile.ranking.evidence,
                timeout_s=min(self.limits.source_s, self.left_s),
            ),
        )
        scored, reranking = await self._scored(kept, facts)
        scored = successors_first(scored, self.profile.superseded, now=self.question.now)
        least = self.profile.min_score if self.options.min_score is None else self.options.min_score
        ranked = reduced(scored, self.question, self.profile, least=least, dropped=self.dropped)
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
            asked=self.understood,
            closeness=closeness,
            fusing=fusing,
        )
        self.dropped["rank_pool"] += len(result.keys.difference([candidate.key for candidate in result.pool]))
        return result

    async def _search(
        self, requests: Mapping[SourceName, SearchRequest]
    ) -> tuple[Sequence[SourceReport], Sequence[SourceReport]]:
        """The reports of every source, and the further lists; all are searched at once."""
        said, sources, timeout_s = self.understood.said_by, self.sources.by_name, self.limits.source_s
        further: list[Further] = []
        if requests:
            request = next(iter(requests.values()))  # sources are asked for the same
            if not is_of_period(self.understood):  # a period is listed as a whole
                further += time_requests(self.question, request, self.profile.time)
            further += reports_of_others(request, said)
        searching = search_all(
            sources,
            requests_of_speaker(requests, said),
            self.sources.breakers,
            timeout_s=timeout_s,
            retries=self.profile.source_retries,
            fallback=self.sources.fallback,
            by_kind=1 < len(self.options.kinds) <= MOST_KINDS,
        )
        return await with_further(searching, further, sources, requests, timeout_s=timeout_s)

    @property
    def _most(self) -> int:
        """The number of fused candidates that are ranked in full."""
        most = max(self.profile.rank_pool, self.options.k or self.profile.max_total_items)
        return max(most, MOST_OF_PERIOD) if is_of_period(self.understood) else most

    async def _listed(self, requests: Mapping[SourceName, SearchRequest]) -> Sequence[int]:
        timeout_s = min(self.limits.source_s, self.left_s)
        return await keys_of_period(self.sources.chronological, requests, self.question.time, timeout_s=timeout_s)

    @property
    def _fusing(self) -> Fusing:
        fusion, is_past = self.profile.fusion, self.question.time.is_past(self.question.now)
        weights: Mapping[SourceName, float] = section_values(fusion.weights)  # pyright: ignore[reportAssignmentType]
        return {
            "method": fusion.method,
            "k": fusion.k,
            "weights": weights,
            "within_weight": max(
                self.profile.time.weight_of_search(of_past=is_past),
                REPORTS_WEIGHT * self.understood.is_said_by,
            ),
            "told_weight": self.profile.time.told_search_weight,
        }

    async def _read(
        self, pool: Sequence[Candidate], reports: Sequence[SourceReport]
    ) -> tuple[Mapping[int, MemoryView], Mapping[int, float], ModelReport | None]:
        """The candidates' memories with their best passages, and late interaction beside that, where it is on."""
        fetching = fetch(keys_to_fetch(pool, reports), self.sources.readers, timeout_s=self.left_s)
        if is_of_period(self.understood):
            return await fetching, {}, None
        most = self._most
        keys = [one.key for place, one in enumerate(pool) if place < most or one.is_kept]
        comparing = self._compare_words(keys, is_away=index_is_away(reports))
        (numbers, closeness, late), memories = await both(comparing, fetching)
        return with_passages(memories, numbers), closeness, late

    async def _compare_words(
        self, keys: Sequence[int], *, is_away: bool
    ) -> tuple[Mapping[int, int], Mapping[int, float], ModelReport | None]:
        """The best passages by key, and late interaction with them, where the profile has it on."""
        timeout_s = min(self.left_s, self.limits.source_s)
        numbers = await nearest_passages(
            self.question,
            self.scope.tenant,
            keys,
            self.sources.passages,
            timeout_s=timeout_s,
            is_away=is_away,
        )
        if not self.profile.ranking.late:
            return numbers, {}, None
        timeout_s, spent_s = min(self.left_s, self.limits.source_s), self.stages.seconds
        found, late = await late_interaction(
            self.question.dense_text,
            keys,
            self.sources.late_interaction,
            self.sources.late_breaker,
            timeout_s=timeout_s,
            is_short=self.limits.leaves_less(timeout_s, self.limits.own_s, after_s=spent_s),
            is_away=is_away,
            passages=numbers,
        )
        return numbers, found, late

    def _filter(
        self, pool: Sequence[Candidate], memories: Mapping[int, MemoryView]
    ) -> list[tuple[Candidate, MemoryView]]:
        live = without_deleted(pool, self.sources.tombstones, self.applied_position, self.dropped)
        exclusions = Exclusions.of(self.query, self.question.now)
        return visible(live, memories, self.scope, self.question, exclusions, self.dropped)

    async def _compare(
        self, kept: Pairs, memories: Mapping[int, MemoryView], late: ModelReport | None
    ) -> Unindexed:
        return await compared(
            [one for one in kept if one[0].key not in memories],
            self.question,
            self.sources.texts,
            # Without late interaction of indexed memories there is nothing to compare its scores with.
            wants_late=late is not None and late.status in ("ok", "empty"),
            timeout_s=min(self.left_s, self.limits.source_s),
        )

    async def _follow_up(
        self,
        kept: Pairs,
        requests: Mapping[SourceName, SearchRequest],
        reports: Sequence[SourceReport],
        similarities: Mapping[int, float],
    ) -> tuple[FollowUp, Mapping[int, MemoryView]]:
        followed = await follow_up(
            kept,
            self.question,
            requests,
            reports,
            profile=self.profile,
            sources=self.sources,
            similarities=similarities,
            timeout_s=min(self.limits.source_s, self.left_s),
        )
        keys = [candidate.key for candidate in followed.further]
        return followed, await fetch(keys, self.sources.readers, timeout_s=self.left_s)

    async def _scored(self, kept: Pairs, facts: QueryFacts) -> tuple[Sequence[ScoredCandidate], ModelReport | None]:
        """The candidates by their scores; those of a recap by its own, which no reranker could judge."""
        if is_of_period(self.understood):
            return in_recap(kept), None
        return await self._rerank(score_candidates(kept, self.profile, facts))

    async def _rerank(
        self, scored: Sequence[ScoredCandidate]
    ) -> tuple[Sequence[ScoredCandidate], ModelReport | None]:
        if not self.profile.rerank.enabled:
            return scored, None
        self.stages.done("score")
        left_s, own_s = self.left_s, self.profile.rerank.timeout_ms / 1000
        judged = await rerank(
            scored,
            self.question.text,
            self.profile,
            self.sources.reranker,
            self.sources.rerank_breaker,
            timeout_s=left_s,
            is_short=self.limits.leaves_less(left_s, own_s, after_s=self.stages.seconds),
        )
        self.stages.done("rerank")
        return judged


async def search_tries(
    query: RecallQueryV1,
    understood: Understanding,
    sources: Sources,
    profile: Profile,
    scope: Scope,
    *,
    applied_position: float,
    full_s: float,
    stages: StageTimes,
    timeout_s: float,
    given: PassResult | None = None,
) -> PassResult:
    """The result of the first reading of a question that finds something, else of the last one.

    `full_s` is the time of a query whose caller sets no shorter one.
    """
    limits = TimeLimits(pass_s=timeout_s, full_s=full_s, own_s=profile.source_timeout_ms / 1000)
    result: PassResult | None = None
    for asked, its_scope in await tries(understood, scope, sources.chronological, own_session=query.session_id):
        one = SearchPass(
            query=query,
            understood=asked,
            profile=profile,
            scope=its_scope,
            sources=sources,
            applied_position=applied_position,
            limits=limits,
            stages=stages,
        )
        result = await one.run(given)
        if is_answered(result):
            break
    assert result is not None  # there is always a first try
    return result
