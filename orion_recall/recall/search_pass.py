"""The search pass: from what the sources find to a ranking, in stages over one pool.

`stages_of` lists the stages that profile and question call for, in their order; each takes the `Pool` one step
further. One whose source or model is away leaves the pool as it is, and the report says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from orion_recall.recall.candidates.filters import keep_answering, visible
from orion_recall.recall.candidates.fuse import (
    compare_unindexed,
    fetch,
    fuse_hits,
    keys_to_fetch,
    limited,
    similarities_of,
    weigh_by_age,
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
from orion_recall.recall.search.all_sources import or_else, search
from orion_recall.recall.search.follow_up import follow
from orion_recall.recall.search.period import list_period
from orion_recall.recall.search.requests import NO_OPTIONS
from orion_recall.recall.successors import add_successors, successors_first, without_superseded
from orion_recall.recall.types import ModelReport, PassResult, Pool
from orion_recall.scoring.candidates import QueryFacts
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


async def read(pool: Pool) -> None:
    """The candidates' memories and, at the same time, late interaction with the passages that fit best; a recap
    compares no words."""
    reading, found = fetch(keys_to_fetch(pool), pool.sources.readers, timeout_s=pool.left_s), pool.found
    if pool.is_recap:
        found.memories = await reading
    else:
        (best, found.closeness, found.late_interaction), memories = await both(_compared_words(pool), reading)
        within = {key: memory._replace(passage=best[key]) for key, memory in memories.items() if key in best}
        found.memories = {**memories, **within} if within else memories
    pool.candidates = limited(pool)
    pool.times.done("fetch")


async def _compared_words(pool: Pool) -> tuple[Mapping[int, int], Mapping[int, float], ModelReport | None]:
    keys = [one.key for place, one in enumerate(pool.candidates) if place < pool.most or one.is_kept]
    # An error or delay leaves the first ones; an index that has just not answered is not asked again.
    passages = FIRST_PASSAGES
    if (find := pool.sources.passages) is not None and keys and not pool.is_away:
        nearest = find(pool.question, pool.scope.tenant, keys)
        passages = await or_else(nearest, FIRST_PASSAGES, pool.source_left_s)
    return passages, *await late_interaction(pool, keys, passages)


async def keep_visible(pool: Pool) -> None:
    """The candidates that the query may see, with their memories and the times that these tell."""
    pool.kept, pool.told_unknown = with_told_times(pool, visible(pool, pool.candidates))
    pool.similarities = similarities_of(pool)


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
        late=scaled(pool.found.closeness, {one.key: len(memory.text) for one, memory in pool.kept}),
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
    pool.found.scored, pool.found.reranking = await rerank(pool)
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
