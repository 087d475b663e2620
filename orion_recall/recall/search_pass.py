"""The search pass: from what the sources find to a ranking, in stages over one pool.

`stages_of` lists the stages that profile and question call for, in their order; each takes the `Pool` one step
further. One whose source or model is away leaves the pool as it is, and the report says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from orion_recall.recall.candidates.filters import keep_answering, visible
from orion_recall.recall.candidates.fuse import (
    WITH_TEXT,
    by_fused,
    compare_unindexed,
    decay_of,
    fetch,
    fuse,
    keys_to_fetch,
    limited,
    newest_favoured,
    similarities_of,
    with_passages,
    with_told_times,
)
from orion_recall.recall.ranking.score import (
    in_recap,
    late_interaction,
    rerank,
    said_once,
    scaled,
    score_candidates,
)
from orion_recall.recall.search.all_sources import (
    MOST_KINDS,
    asks_others,
    index_is_away,
    or_else,
    reports_of_others,
    requests_of_speaker,
    search_all,
    time_requests,
    with_further,
)
from orion_recall.recall.search.follow_up import follow
from orion_recall.recall.search.period import list_period
from orion_recall.recall.search.requests import NO_OPTIONS
from orion_recall.recall.successors import add_successors, successors_first, without_superseded
from orion_recall.recall.types import ModelReport, PassResult, Pool
from orion_recall.scoring.candidates import Candidate, QueryFacts
from orion_recall.tasks import both
from orion_recall.text.normal import content_words, stems
from orion_recall.text.passages import FIRST_PASSAGES

NO_VALUES: Mapping[int, float] = {}


Stage = Callable[[Pool], Awaitable[None]]


def stages_of(pool: Pool) -> list[Stage]:
    """The stages of this pass in their order."""
    profile, is_recap = pool.profile, pool.is_recap
    favours_newest = profile.fusion.method == "bm25_decay"
    stages: tuple[tuple[Stage, bool], ...] = (
        (list_period, is_recap),
        (search, True),
        (fuse_hits, True),
        (read, True),
        (keep_visible, True),
        (compare_unindexed, True),
        (weigh_by_age, favours_newest),
        (follow, profile.ranking.follows and not is_recap),
        (add_successors, True),
        (keep_answering, True),
        (find_evidence, profile.ranking.evidence > 0 and not is_recap),
        (score_recap if is_recap else score, True),
        (judge_again, profile.rerank.enabled and not is_recap),
        (rank, True),
    )
    return [stage for stage, is_wanted in stages if is_wanted]


async def search_pass(pool: Pool) -> PassResult:
    """Takes the pool through its stages, once."""
    for stage in stages_of(pool):
        await stage(pool)
    found = pool.found
    found.pool, found.asked, found.fusing = [*pool.candidates, *pool.further], pool.understood, pool.fusing
    found.dropped["rank_pool"] += len(found.keys.difference([candidate.key for candidate in found.pool]))
    return found


async def search(pool: Pool) -> None:
    """Every source at once, and the further lists of times and of others' words; or the hits of other passes."""
    said, sources, timeout_s = pool.understood.said_by, pool.sources, pool.limits.source_s
    if (given := pool.given) is not None:
        pool.found.reports, pool.found.within = given.reports, given.within
    else:
        kinds = () if pool.query.options is None else pool.query.options.kinds
        searching = search_all(
            sources.by_name,
            requests_of_speaker(pool.requests, said),
            sources.breakers,
            timeout_s=timeout_s,
            retries=pool.profile.source_retries,
            fallback=sources.fallback,
            by_kind=1 < len(kinds) <= MOST_KINDS,
        )
        request = next(iter(pool.requests.values()), None)  # sources are asked for the same
        further = [] if request is None else reports_of_others(request, said)
        if request is not None and not pool.is_recap:  # a period is listed as a whole
            further = [*time_requests(pool.question, request, pool.profile.time), *further]
        reports, within = await with_further(
            searching, further, sources.by_name, pool.requests, timeout_s=timeout_s
        )
        pool.found.reports, pool.found.within = tuple(reports), tuple(within)
    pool.is_away = index_is_away(pool.found.reports)
    pool.times.done("search")


async def fuse_hits(pool: Pool) -> None:
    """One candidate a memory, best first: as many as are ranked, by fused score, and by age where the newest are
    favoured; and the memories of the period that no source has found."""
    favours_newest = pool.profile.fusion.method == "bm25_decay"  # the ages of candidates are not known yet
    pool.candidates = fuse(
        pool.found.reports,
        pool.fusing,
        limit=None if favours_newest else pool.most,
        with_text=WITH_TEXT if pool.sources.has_external or asks_others(pool.found.reports) else 0,
        within=pool.found.within,
    )
    if favours_newest:
        decay, readers, left_s = decay_of(pool.profile, pool.question.now), pool.sources.readers, pool.left_s
        pool.candidates = await newest_favoured(
            pool.candidates, decay, pool.most, readers, left_s, is_away=pool.is_away
        )
    if pool.is_recap:
        known = {candidate.key for candidate in pool.candidates}
        listed = (Candidate(key=key, led_by="period") for key in pool.listed if key not in known)
        pool.candidates = [*pool.candidates, *listed]
    pool.times.done("fuse")


async def read(pool: Pool) -> None:
    """The candidates' memories and, at the same time, late interaction with the passages that fit best; a recap
    compares no words."""
    keys = keys_to_fetch(pool.candidates, is_away=pool.is_away)
    reading = fetch(keys, pool.sources.readers, timeout_s=pool.left_s)
    if pool.is_recap:
        pool.found.memories = await reading
    else:
        (passages, pool.found.closeness, pool.found.late_interaction), memories = await both(
            _compared_words(pool), reading
        )
        pool.found.memories = with_passages(memories, passages)
    pool.candidates = limited(pool)
    pool.times.done("fetch")


async def _compared_words(pool: Pool) -> tuple[Mapping[int, int], Mapping[int, float], ModelReport | None]:
    question, sources, most, is_away = pool.question, pool.sources, pool.most, pool.is_away
    keys = [one.key for place, one in enumerate(pool.candidates) if place < most or one.is_kept]
    # An error or delay leaves the first ones; an index that has just not answered is not asked again.
    passages = FIRST_PASSAGES
    if sources.passages is not None and keys and not is_away:
        nearest = sources.passages(question, pool.scope.tenant, keys)
        passages = await or_else(nearest, FIRST_PASSAGES, pool.source_left_s)
    if not pool.profile.ranking.late:
        return passages, NO_VALUES, None
    timeout_s, spent_s = pool.source_left_s, pool.times.seconds
    found, late = await late_interaction(
        question.dense_text,
        keys,
        sources.late_interaction,
        sources.late_breaker,
        timeout_s=timeout_s,
        is_short=pool.limits.leaves_less(timeout_s, pool.limits.own_s, after_s=spent_s),
        is_away=is_away,
        passages=passages,
    )
    return passages, found, late


async def keep_visible(pool: Pool) -> None:
    """The candidates that the query may see, with their memories and the times that these tell."""
    pool.kept, pool.told_unknown = with_told_times(pool, visible(pool, pool.candidates))
    pool.similarities = similarities_of(pool)


async def weigh_by_age(pool: Pool) -> None:
    """The fused scores, each times the factor of its memory's age."""
    decay = decay_of(pool.profile, pool.question.now)
    for candidate, memory in pool.kept:
        candidate.fused *= decay(memory)
    pool.kept = by_fused(pool.kept)


async def find_evidence(pool: Pool) -> None:
    """How often the graph has the memories' statements."""
    if (weights_of := pool.sources.evidence) is not None:
        stated = weights_of(pool.scope.tenant, [candidate.key for candidate, _ in pool.kept])
        pool.evidence = await or_else(stated, NO_VALUES, pool.source_left_s)


async def score(pool: Pool) -> None:
    """Every candidate by its score parts, best first."""
    understood, question = pool.understood, pool.question
    said, is_own = understood.said_by, understood.is_first_person
    facts = QueryFacts(
        now=question.now,
        named_speaker=understood.named_speaker,
        asker=understood.asker if is_own else None,
        is_own=is_own and (said is None or understood.asker in said.speakers),
        time=question.time,
        session_id=question.session_id,
        terms=stems(content_words(question.text)),
        identifiers=stems(understood.identifiers),
        entities=tuple([entity.name for entity in understood.entities]),
        similarities=pool.similarities,
        late=scaled(pool.found.closeness),
        followed=pool.followed,
        unindexed=pool.unindexed,
        told_unknown=pool.told_unknown,
        evidence=pool.evidence,
    )
    pool.found.scored = score_candidates(pool.kept, pool.profile, facts)


async def score_recap(pool: Pool) -> None:
    """Every candidate by how much it tells, each session's first ones before its later ones."""
    pool.found.scored = in_recap(pool.kept)


async def judge_again(pool: Pool) -> None:
    """The best ones with the reranker's judgement."""
    pool.times.done("score")
    left_s, own_s = pool.left_s, pool.profile.rerank.timeout_ms / 1000
    pool.found.scored, pool.found.reranking = await rerank(
        pool.found.scored,
        pool.question.text,
        pool.profile,
        pool.sources.reranker,
        pool.sources.rerank_breaker,
        timeout_s=left_s,
        is_short=pool.limits.leaves_less(left_s, own_s, after_s=pool.times.seconds),
    )
    pool.times.done("rerank")


async def rank(pool: Pool) -> None:
    """The order of what is shown: successors first, each said once, nothing below the least score; without those
    that have a successor where the profile omits them."""
    options, profile, question = pool.query.options or NO_OPTIONS, pool.profile, pool.question
    pool.found.scored = successors_first(pool.found.scored, profile.superseded, now=question.now)
    least = profile.min_score if options.min_score is None else options.min_score
    for item in pool.found.scored:
        if item.score < least:
            pool.found.dropped.note("below_min_score", item.candidate.key)
    kept = [item for item in pool.found.scored if item.score >= least]
    kept = without_superseded(kept, question, profile.superseded, pool.found.dropped)
    pool.found.ranked = tuple(said_once(kept, pool.found.dropped))
    pool.times.done("rank")
