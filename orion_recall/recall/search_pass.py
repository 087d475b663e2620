"""The search pass: every source searched once, and what they find fused, scored and ranked.

search every source at once -> fuse -> fetch the memories, with late interaction at the same time -> filter ->
compare memories that the index does not hold -> follow-up search -> score -> rerank -> drop near-duplicates

Late interaction, the comparison, the follow-up search and reranking are done where profile and hits call for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile import Profile
from orion_recall.profile.sections import section_values
from orion_recall.recall.candidates.fetch import fetch, keys_to_fetch, nearest_passages, with_passages
from orion_recall.recall.candidates.filters import Exclusions, answering, visible, without_deleted
from orion_recall.recall.candidates.fuse import (
    WITH_TEXT,
    Fusing,
    by_fused,
    compared,
    decay_of,
    fuse,
    fused_with_unindexed,
    limited,
    newest_favoured,
    similarities_of,
    with_told_times,
)
from orion_recall.recall.pass_result import Dropped, ModelReport, PassResult, StageTimes
from orion_recall.recall.ranking.score import (
    in_recap,
    late_interaction,
    reduced,
    rerank,
    scaled,
    score_candidates,
)
from orion_recall.recall.search.all_sources import (
    MOST_KINDS,
    REPORTS_WEIGHT,
    index_is_away,
    or_else,
    reports_of_others,
    requests_of_speaker,
    search_all,
    time_requests,
    with_further,
)
from orion_recall.recall.search.follow_up import follow_up
from orion_recall.recall.search.period import (
    MOST_OF_PERIOD,
    is_of_period,
    keys_of_period,
    of_period,
    with_listed,
)
from orion_recall.recall.search.requests import NO_OPTIONS, TimeLimits, requests_of
from orion_recall.recall.successors import successors_first, with_successors
from orion_recall.recall.types import Sources
from orion_recall.recall.understand.question import Understanding
from orion_recall.scoring.candidates import Candidate, QueryFacts, ScoredCandidate
from orion_recall.tasks import both
from orion_recall.text.normal import content_words, stems
from orion_recall.values import MemoryView, Scope, SearchRequest, SourceName, SourceReport

Requests = Mapping[SourceName, SearchRequest]
Memories = Mapping[int, MemoryView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPass:
    """One pass over the profile's sources in one scope; `run` it once. `applied_position` is the tombstones'
    position from before the search."""

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
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.limits.pass_s - self.stages.seconds

    @property
    def source_left_s(self) -> float:
        """Seconds that one further call of a source may take."""
        return min(self.limits.source_s, self.left_s)

    async def run(self, given: PassResult | None = None) -> PassResult:
        """The pass from search to ranking. With `given`, the hits of other passes are ranked without a search."""
        question, profile, sources = self.understood.question, self.profile, self.sources
        options, now, is_recap = self.query.options or NO_OPTIONS, question.now, is_of_period(self.understood)
        most = max(profile.rank_pool, options.k or profile.max_total_items, MOST_OF_PERIOD if is_recap else 0)
        requests = requests_of(question, self.scope, profile, options, self.limits)
        listed: Sequence[int] = ()
        if is_recap:
            requests = of_period(requests, question.time.intervals)
            if given:
                listed = [one.key for one in given.pool]
            else:
                index, time_s = sources.chronological, self.source_left_s
                listed = await keys_of_period(index, requests, question.time, timeout_s=time_s)
        reports, within = (given.reports, given.within) if given else await self._search(requests)
        is_away = index_is_away(reports)
        self.stages.done("search")

        decay, fusing = decay_of(profile, now), self._fusing()
        limit = most if decay is None else None  # the ages of candidates are not known yet
        text = WITH_TEXT if sources.has_external else 0
        pool: Sequence[Candidate] = fuse(reports, fusing, limit=limit, with_text=text, within=within)
        if decay is not None:
            pool = await newest_favoured(pool, decay, most, sources.readers, self.left_s, is_away=is_away)
        pool = with_listed(pool, listed)
        self.stages.done("fuse")
        fetching = fetch(keys_to_fetch(pool, is_away=is_away), sources.readers, timeout_s=self.left_s)
        closeness: Mapping[int, float] = {}
        late: ModelReport | None = None
        if is_recap:
            memories = await fetching
        else:
            keys = [one.key for place, one in enumerate(pool) if place < most or one.is_kept]
            (passages, closeness, late), memories = await both(self._compare_words(keys, is_away), fetching)
            memories = with_passages(memories, passages)
        pool = limited(pool, most, memories, is_away=is_away)
        self.stages.done("fetch")

        excluded = Exclusions.of(self.query, now)
        kept, told_unknown = with_told_times(self._visible(pool, memories, excluded), memories, question)
        similarities = similarities_of([*reports, *within], pool)
        unindexed = [] if is_away else [one for one in kept if one[0].key not in memories]
        unindexed_keys = frozenset([candidate.key for candidate, _ in unindexed])
        if unindexed:
            # Without late interaction of indexed memories there is nothing to compare its scores with.
            wants, time_s = late is not None and late.status in ("ok", "empty"), self.source_left_s
            cosines, near = await compared(unindexed, question, sources.texts, wants_late=wants, timeout_s=time_s)
            kept = fused_with_unindexed(kept, unindexed_keys, cosines, reports, within, fusing)
            if late is not None and near:
                closeness = {**closeness, **near}
                late = replace(late, status="ok", count=len(closeness))
            self.stages.done("compare")
        if decay is not None:
            for candidate, memory in kept:
                candidate.fused *= decay(memory)
            kept = by_fused(kept)
        followed: Mapping[str, Mapping[int, float]] = {}
        further: Sequence[Candidate] = ()
        if profile.ranking.follows and not is_recap:
            followed, further = await follow_up(
                kept,
                question,
                requests,
                reports,
                profile=profile,
                sources=sources,
                similarities=similarities,
                timeout_s=self.source_left_s,
            )
            read = await fetch([one.key for one in further], sources.readers, timeout_s=self.left_s)
            memories = {**memories, **read}
            kept = [*kept, *self._visible(further, memories, excluded)]
            self.stages.done("follow")
        kept, memories = await with_successors(
            kept,
            memories,
            profile.superseded,
            now=now,
            readers=sources.readers,
            visible=lambda found, read: self._visible(found, read, excluded),
            dropped=self.dropped,
            timeout_s=self.left_s,
        )
        kept = answering(kept, self.understood, profile, self.dropped)
        evidence: Mapping[int, float] = {}
        if sources.evidence is not None and profile.ranking.evidence > 0:
            stated = sources.evidence.weights(self.scope.tenant, [candidate.key for candidate, _ in kept])
            evidence = await or_else(stated, evidence, self.source_left_s)
        scored: Sequence[ScoredCandidate]
        reranking: ModelReport | None = None
        if is_recap:
            scored = in_recap(kept)
        else:
            understood = self.understood
            said, is_own = understood.said_by, understood.is_first_person
            facts = QueryFacts(
                now=now,
                named_speaker=understood.named_speaker,
                asker=understood.asker if is_own else None,
                is_own=is_own and (said is None or understood.asker in said.speakers),
                time=question.time,
                session_id=question.session_id,
                terms=stems(content_words(question.text)),
                identifiers=stems(understood.identifiers),
                entities=tuple([entity.name for entity in understood.entities]),
                similarities=similarities,
                late=scaled(closeness),
                followed=followed,
                unindexed=unindexed_keys,
                told_unknown=told_unknown,
                evidence=evidence,
            )
            scored = score_candidates(kept, profile, facts)
            if profile.rerank.enabled:
                self.stages.done("score")
                left_s, own_s = self.left_s, profile.rerank.timeout_ms / 1000
                scored, reranking = await rerank(
                    scored,
                    question.text,
                    profile,
                    sources.reranker,
                    sources.rerank_breaker,
                    timeout_s=left_s,
                    is_short=self.limits.leaves_less(left_s, own_s, after_s=self.stages.seconds),
                )
                self.stages.done("rerank")
        scored = successors_first(scored, profile.superseded, now=now)
        least = profile.min_score if options.min_score is None else options.min_score
        ranked = reduced(scored, question, profile, least=least, dropped=self.dropped)
        self.stages.done("rank")
        result = PassResult(
            reports=tuple(reports),
            within=tuple(within),
            pool=[*pool, *further],
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

    async def _search(self, requests: Requests) -> tuple[Sequence[SourceReport], Sequence[SourceReport]]:
        said, profile, timeout_s = self.understood.said_by, self.profile, self.limits.source_s
        kinds = () if self.query.options is None else self.query.options.kinds
        searching = search_all(
            self.sources.by_name,
            requests_of_speaker(requests, said),
            self.sources.breakers,
            timeout_s=timeout_s,
            retries=profile.source_retries,
            fallback=self.sources.fallback,
            by_kind=1 < len(kinds) <= MOST_KINDS,
        )
        request = next(iter(requests.values()), None)  # sources are asked for the same
        further = [] if request is None else reports_of_others(request, said)
        if request is not None and not is_of_period(self.understood):  # a period is listed as a whole
            further = [*time_requests(self.understood.question, request, profile.time), *further]
        return await with_further(searching, further, self.sources.by_name, requests, timeout_s=timeout_s)

    def _fusing(self) -> Fusing:
        fusion, time, question = self.profile.fusion, self.profile.time, self.understood.question
        weights: Mapping[SourceName, float] = section_values(fusion.weights)  # pyright: ignore[reportAssignmentType]
        of_past = time.weight_of_search(of_past=question.time.is_past(question.now))
        within = max(of_past, REPORTS_WEIGHT * self.understood.is_said_by)
        return Fusing(
            method=fusion.method,
            k=fusion.k,
            weights=weights,
            within_weight=within,
            told_weight=time.told_search_weight,
        )

    async def _compare_words(
        self, keys: Sequence[int], is_away: bool
    ) -> tuple[Mapping[int, int], Mapping[int, float], ModelReport | None]:
        question, sources = self.understood.question, self.sources
        passages = await nearest_passages(
            question, self.scope.tenant, keys, sources.passages, timeout_s=self.source_left_s, is_away=is_away
        )
        if not self.profile.ranking.late:
            return passages, {}, None
        timeout_s, spent_s = self.source_left_s, self.stages.seconds
        found, late = await late_interaction(
            question.dense_text,
            keys,
            sources.late_interaction,
            sources.late_breaker,
            timeout_s=timeout_s,
            is_short=self.limits.leaves_less(timeout_s, self.limits.own_s, after_s=spent_s),
            is_away=is_away,
            passages=passages,
        )
        return passages, found, late

    def _visible(
        self, pool: Sequence[Candidate], memories: Memories, excluded: Exclusions
    ) -> list[tuple[Candidate, MemoryView]]:
        live = without_deleted(pool, self.sources.tombstones, self.applied_position, self.dropped)
        return visible(live, memories, self.scope, self.understood.question, excluded, self.dropped)
