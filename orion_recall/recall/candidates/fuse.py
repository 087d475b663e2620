"""Fusion: many ranked lists into one; and the candidates' memories, read at once.

Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): the sum of w / (k + rank) over the lists that hold
a memory, ranks from 1, equal scores sharing a rank. Min-max fusion sums w * score, each list's scores stretched so
that the first has 1, and 0 is as far below the last as hits are apart on average: the last of a hundred is worth
next to nothing, the last of two a half. BM25 with decay sums w * score / first score; a factor of age is for the
caller to multiply (`decay`). All are divided by the best value possible for the lists that answered.

Unindexed candidates come from external stores, and from a timeline that is ahead of the index: only their own store
can find them. They get cosine and late interaction from vectors of their text, told times from reading it, and a
fused score on the scale of indexed memories.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from orion_recall.errors import SourceError
from orion_recall.index.texts import dense_form_of_view
from orion_recall.interfaces import MemoryReader
from orion_recall.memory.extraction.light import find_times
from orion_recall.profile import Profile
from orion_recall.recall.search.all_sources import asks_others, or_else
from orion_recall.recall.types import Fusing, Method, Pairs, Pool
from orion_recall.scoring.candidates import Candidate, recency
from orion_recall.scoring.intervals import told_ranges
from orion_recall.tasks import in_time
from orion_recall.values import Hit, MemoryView, SourceName, SourceReport, ToldTime

log = logging.getLogger("orion_recall.recall")

_KEY, _KEY_AND_SCORE = itemgetter(0), itemgetter(0, 1)  # of a hit: quicker than names, and there are hundreds
_SECOND = itemgetter(1)
WITH_TEXT = 16
"""So many first hits of each list become candidates if they bring a memory with them: the index may not hold
them."""
WITHIN = 16
"""So many first hits of each further list are candidates: nothing of a named time need be among the best of all."""


class _List(NamedTuple):
    """One list with hits: its weight, its source, and in columns the hits and their ranks.

    A score of `zero` adds nothing; where it is the first's score, each of them counts as the first. `is_more`: it
    is a source's list of a further kind; no memory is in two of those, and together they weigh as one.
    """

    weight: float
    source: SourceName
    hits: Sequence[Hit]
    ranks: Sequence[int]
    first: float
    zero: float
    is_more: bool = False

    def gains(self, method: Method, k: int) -> list[float]:
        """What each hit adds to the fused score of its memory."""
        weight, span, zero = self.weight, self.first - self.zero, self.zero
        if method == "rrf":
            return [weight * (1 / (k + rank)) for rank in self.ranks]
        if span > 0:
            return [weight * ((hit[1] - zero) / span) for hit in self.hits]
        return [weight * 1.0] * len(self.hits)


def fuse(
    reports: Sequence[SourceReport],
    by: Fusing,
    *,
    limit: int | None = None,
    with_text: int = WITH_TEXT,
    within: Sequence[SourceReport] = (),
) -> list[Candidate]:
    """One candidate a memory, best first, `limit` at most; equal fused scores in the order of their keys.

    After these come the first `WITHIN` hits of each further list (`within`), and of the first `with_text` of a list
    those that bring a memory. `best_source` ranked it best: the heavier one on a tie, then the first by name.
    """
    lists, method, k = _lists(reports, within, by), by.method, by.k
    possible = 0.0
    fused: dict[int, float] = {}
    for one in lists:
        if not one.is_more:
            possible += one.weight / (k + 1) if method == "rrf" else one.weight
        gains, so_far = zip(map(_KEY, one.hits), one.gains(method, k), strict=True), fused.get
        if not fused:
            fused = dict(gains)
            continue
        for key, gain in gains:
            fused[key] = so_far(key, 0.0) + gain
    # Objects are made only for candidates: most hits of a deep search become none.
    best = _best(fused, len(fused) if limit is None else limit)
    kept = {hit.key for report in within for hit in report.hits[:WITHIN]}
    if len(best) < len(fused):
        bringing = {hit.key for one in lists for hit in islice(one.hits, with_text) if hit.read is not None}
        best += _in_order([(fused[key], key) for key in (kept | bringing).difference(best)])
    whole = possible if possible > 0 else math.inf
    pool = {
        key: Candidate(key=key, fused=fused[key] / whole, ranks={}, scores={}, is_kept=key in kept) for key in best
    }
    _note_hits(pool, lists)
    return [*pool.values()]


def _best(fused: Mapping[int, float], limit: int) -> list[int]:
    if limit <= 0:
        return []
    # Numbers alone sort quickly. What is equal to the last one after rounding must be ordered with it.
    least = sorted(fused.values(), reverse=True)[limit - 1] - 1e-8 if len(fused) > limit else -math.inf
    return _in_order([(score, key) for key, score in fused.items() if score >= least])[:limit]


def _in_order(scored: Sequence[tuple[float, int]]) -> list[int]:
    worst: list[float] = np.round([-score for score, _ in scored], 9).tolist()  # a fifth of a hundred calls' time
    return [key for _, key in sorted(zip(worst, map(_SECOND, scored), strict=True))]


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
        pool.candidates = await newest_favoured(pool)
    if pool.is_recap:
        known = {candidate.key for candidate in pool.candidates}
        listed = (Candidate(key=key, led_by="period") for key in pool.listed if key not in known)
        pool.candidates = [*pool.candidates, *listed]
    pool.times.done("fuse")


async def weigh_by_age(pool: Pool) -> None:
    """The fused scores, each times the factor of its memory's age."""
    decay = decay_of(pool.profile, pool.question.now)
    for candidate, memory in pool.kept:
        candidate.fused *= decay(memory)
    pool.kept = by_fused(pool.kept)


def rrf_score(candidate: Candidate, by: Fusing) -> float:
    """The sum of w / (k + rank) over the sources that found it, whatever the method; further lists do not count."""
    return sum(by.weights[source] / (by.k + rank) for source, rank in candidate.ranks.items())


def fused_with_unindexed(
    kept: Pairs,
    keys: Set[int],
    cosines: Mapping[int, float],
    reports: Sequence[SourceReport],
    within: Sequence[SourceReport],
    by: Fusing,
) -> list[tuple[Candidate, MemoryView]]:
    """The candidates, best first, with cosines and fused scores of the unindexed ones, which have these keys.

    Their score is the mean over the lists that have them, brought to the scale of indexed memories, whose scores
    count the lists that missed them: by the average share that those are of their gain in the dense list. One with
    a cosine counts as if it were in the dense list at the place of that; one without any place there keeps its
    score.
    """
    lists = _lists(reports, within, by)
    dense = next((one for one in lists if one.source == "vector"), None)
    if dense is None:
        dense = _List(by.weights["vector"], "vector", (), (), max(cosines.values(), default=1.0), 0.0)

    def gain(one: _List, rank: int, score: float) -> float:
        if by.method == "rrf":
            return (by.k + 1) / (by.k + rank)
        span = one.first - one.zero
        return min(max((score - one.zero) / span, 0.0), 1.0) if span > 0 else 1.0

    def gains_of(one: _List) -> dict[int, float]:
        return {hit.key: gain(one, rank, hit.score) for hit, rank in zip(one.hits, one.ranks, strict=True)}

    of_dense, of_lists = gains_of(dense), [(one.weight, gains_of(one)) for one in lists]
    own = [(one.fused, of_dense[one.key]) for one, _ in kept if one.key not in keys and one.key in of_dense]
    worth = sum(one for _, one in own)
    scale = min(1.0, sum(score for score, _ in own) / worth) if worth > 0 else 1.0
    for candidate, _ in kept:
        key = candidate.key
        if (cosine := cosines.get(key)) is not None:
            candidate.scores["vector"] = cosine
        if key not in keys or (cosine is None and key not in of_dense):
            continue
        gains = [(weight, known[key]) for weight, known in of_lists if key in known]
        if cosine is not None and key not in of_dense:
            gains.append((dense.weight, gain(dense, 1 + sum(hit.score > cosine for hit in dense.hits), cosine)))
        possible = sum(weight for weight, _ in gains)
        candidate.fused = scale * sum(weight * one for weight, one in gains) / possible if possible > 0 else 0.0
    return by_fused(kept)


def _lists(reports: Sequence[SourceReport], within: Sequence[SourceReport], by: Fusing) -> list[_List]:
    """The lists with hits, the heaviest first, and the further ones after them."""
    own = sorted(
        [(by.weights[report.source], report) for report in reports if report.hits],
        key=lambda one: (-one[0], one[1].source),
    )
    further = [(by.told_weight if one.is_flat else by.within_weight, one) for one in within if one.hits]
    return [
        _List(
            weight,
            report.source,
            *_each_once(hits, _ranks(hits)),
            hits[0].score,
            hits[0].score if report.is_flat else _zero(hits, by.method),
            is_more=place > 0,
        )
        for weight, report in (*own, *further)
        for place, hits in enumerate(report.lists or (report.hits,))
    ]


def _zero(hits: Sequence[Hit], method: Method) -> float:
    """The score that adds nothing: as far below the last score as the scores are apart on average; where scores are
    multiplied by a decay, 0, or the last one if it is below 0."""
    first, last = hits[0].score, hits[-1].score
    return min(0.0, last) if method == "bm25_decay" else last - (first - last) / max(1, len(hits) - 1)


def _ranks(hits: Sequence[Hit]) -> Sequence[int]:
    """The rank of each hit, from 1; equal scores share one."""
    if len({hit[1] for hit in hits}) == len(hits):
        return range(1, len(hits) + 1)
    ranks: list[int] = []
    rank, last = 0, math.inf
    for place, hit in enumerate(hits, start=1):
        if hit[1] != last:
            rank, last = place, hit[1]
        ranks.append(rank)
    return ranks


def _each_once(hits: Sequence[Hit], ranks: Sequence[int]) -> tuple[Sequence[Hit], Sequence[int]]:
    """The hits and their ranks, of a memory that is there twice the first one."""
    if len(set(map(_KEY, hits))) == len(hits):
        return hits, ranks
    first: dict[int, int] = {}
    for place, hit in enumerate(hits):
        first.setdefault(hit[0], place)
    return [hits[place] for place in first.values()], [ranks[place] for place in first.values()]


def _note_hits(pool: Mapping[int, Candidate], lists: Sequence[_List]) -> None:
    """Tells each candidate what found it. The lists come heaviest first, so that the first of equal ranks wins."""
    best: dict[int, int] = {}
    find, best_of = pool.get, best.get
    for one in lists:
        source = one.source
        for (key, score, read, statements, path, source_ref), rank in zip(one.hits, one.ranks, strict=True):
            if (candidate := find(key)) is None:
                continue
            if source not in (ranks := candidate.ranks):  # else it is a further list's, which ranks fewer
                ranks[source] = rank
                candidate.scores[source] = score
            if (before := best_of(key)) is None or rank < before:
                best[key], candidate.best_source, candidate.source_ref = rank, source, source_ref
            if read is not None and candidate.read is None:
                candidate.read = read
            if statements:
                candidate.statements, candidate.path = statements, path


def similarities_of(pool: Pool) -> Mapping[int, float]:
    """The cosines of all hits of the dense search. Hits of its fallback have none, only their rank."""
    by_meaning = [report for report in (*pool.found.reports, *pool.found.within) if report.source == "vector"]
    if by_meaning and all(report.fallback is None for report in by_meaning):
        return {key: score for report in by_meaning for key, score in map(_KEY_AND_SCORE, report.hits)}
    for candidate in pool.candidates:
        candidate.scores.pop("vector", None)
    return {}


# The errors of reading a malformed row or payload.
_UNREADABLE = (SourceError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
# Reading a few dozen memories by key takes a millisecond; even a recall that is out of time waits this long for it.
_FETCH_S = 0.1


def keys_to_fetch(pool: Pool) -> list[int]:
    """The keys of all candidates; while the index (the first reader) is away, of those that no source has read."""
    return [candidate.key for candidate in pool.candidates if not pool.is_away or candidate.read is None]


async def fetch(
    keys: Sequence[int], readers: Sequence[MemoryReader], *, timeout_s: float
) -> Mapping[int, MemoryView]:
    """Memories by key, from the first reader that answers; empty when none does."""
    if not keys:
        return {}
    until = time.perf_counter() + timeout_s
    for place, reader in enumerate(readers):
        # A reader that hangs leaves the others their share of the time.
        share_s = max((until - time.perf_counter()) / (len(readers) - place), _FETCH_S)
        try:
            return await in_time(reader.fetch(keys), share_s)
        except (SourceError, TimeoutError):
            continue
    return {}  # memories that a source has read itself are still there; the rest is counted as missing


def read_of(candidate: Candidate) -> MemoryView | None:
    """The memory that a source read with its hit; None when there is none, or it cannot be read."""
    if candidate.read is None:
        return None
    try:
        return candidate.read()
    except _UNREADABLE as error:
        _warn_once(candidate.best_source, type(error.__cause__ or error).__name__)
        return None


@lru_cache(maxsize=64)
def _warn_once(source: str, error: str) -> None:
    """Once for each source and error: a store with many such rows is in every recall."""
    told = "a hit of %s cannot be read (%s) and is left out; check its rows or its mapping (logged once)"
    log.warning(told, source, error)


Decay = Callable[[MemoryView], float]
"""The factor of a memory, as of the query's clock: as recency, 0.5 for a memory without a time."""


def decay_of(profile: Profile, now: float) -> Decay:
    """The factor of a memory's age, exp(-lambda * age), and 1 in the future."""
    half_life, least = profile.half_life_hours, profile.recency_floor
    return lambda memory: recency(memory.ts, now, half_life_hours=half_life, minimum=least)


async def newest_favoured(pool: Pool) -> Sequence[Candidate]:
    """The candidates in the order of their decayed scores, as many as are ranked. Their memories are read for that;
    scores stay as they are. Candidates that cannot be read come last."""
    decay, fused = decay_of(pool.profile, pool.question.now), pool.candidates
    memories = await fetch(keys_to_fetch(pool), pool.sources.readers, timeout_s=pool.left_s)
    known = [(one, memories.get(one.key) or read_of(one)) for one in fused]
    scores = {one.key: 0.0 if memory is None else one.fused * decay(memory) for one, memory in known}
    ordered = sorted(fused, key=lambda one: (-round(scores[one.key], 9), one.key))
    if pool.is_away:
        return ordered[: pool.most]
    # Beyond the limit only those that bring their text, as fusion itself keeps them.
    beyond = (one for one in ordered[pool.most :] if one.key not in memories and one.read is not None)
    return [*ordered[: pool.most], *beyond]


def by_fused(kept: Iterable[tuple[Candidate, MemoryView]]) -> list[tuple[Candidate, MemoryView]]:
    """The candidates, best fused score first."""
    return sorted(kept, key=lambda one: (-round(one[0].fused, 9), one[0].key))


MOST_COMPARED = 24
"""Texts of one recall that are compared, the first of a source's list: 0.2 s of a slow core when none is cached."""
MOST_READ = 24
"""Texts of one recall that are read for told times: about a millisecond each when they are not cached."""
_READ_CHARS = 1_000
# To compare cached texts takes a millisecond; even a recall that is out of time waits this long for it.
_COMPARING_S = 0.1


def limited(pool: Pool) -> Sequence[Candidate]:
    """As many candidates as are ranked; beyond them those that are kept, and unindexed ones, which bring text."""
    if len(pool.candidates) <= pool.most:
        return pool.candidates
    further, is_away = pool.candidates[pool.most :], pool.is_away
    beyond = (one for one in further if one.is_kept or (not is_away and one.key not in pool.found.memories))
    return [*pool.candidates[: pool.most], *beyond]


async def compare_unindexed(pool: Pool) -> None:
    """Cosines, late interaction and fused scores of memories that the index, which answered, does not hold."""
    unindexed = [] if pool.is_away else [one for one in pool.kept if one[0].key not in pool.found.memories]
    if not unindexed:
        return
    pool.unindexed = frozenset([candidate.key for candidate, _ in unindexed])
    # Without late interaction of indexed memories there is nothing to compare its scores with.
    late = pool.found.late_interaction
    wants_late = late is not None and late.status in ("ok", "empty")
    cosines, near = await _compared(pool, unindexed, wants_late=wants_late)
    pool.kept = fused_with_unindexed(
        pool.kept, pool.unindexed, cosines, pool.found.reports, pool.found.within, pool.fusing
    )
    if late is not None and near:
        pool.found.closeness = {**pool.found.closeness, **near}
        pool.found.late_interaction = replace(late, status="ok", count=len(pool.found.closeness))
    pool.times.done("compare")


async def _compared(
    pool: Pool, unindexed: Pairs, *, wants_late: bool
) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Cosines and late interaction, by key, of the first unindexed candidates, as far as time allows. One of a
    dense search keeps its cosine. Raises nothing."""
    by, question, timeout_s = pool.sources.texts, pool.question, pool.source_left_s
    lacking = [one for one in unindexed if wants_late or "vector" not in one[0].scores]
    if by is None or not lacking or timeout_s <= 0:
        return {}, {}
    first = sorted(lacking, key=lambda one: min(one[0].ranks.values(), default=0))[:MOST_COMPARED]
    texts = [dense_form_of_view(memory) for _, memory in first]
    await or_else(by.embed(texts), None, timeout_s)
    found = await or_else(by.nearness(question, texts), (), _COMPARING_S)
    cosines: dict[int, float] = {}
    late: dict[int, float] = {}
    for (candidate, _), one in zip(first, found, strict=False):
        if one is not None and "vector" not in candidate.scores:
            cosines[candidate.key] = one.cosine
        if one is not None and wants_late and one.late_interaction is not None:
            late[candidate.key] = one.late_interaction
    return cosines, late


def with_told_times(pool: Pool, kept: Pairs) -> tuple[list[tuple[Candidate, MemoryView]], frozenset[int]]:
    """The candidates, unindexed ones with the times that they tell; the keys of unread ones."""
    memories = pool.found.memories
    if not told_ranges(pool.question.time, pool.question.now):
        return list(kept), frozenset()
    lacking = [candidate.key for candidate, memory in kept if candidate.key not in memories and not memory.told]
    read = frozenset(lacking[:MOST_READ])
    return [
        (candidate, memory._replace(told=_told(memory.text[:_READ_CHARS], memory.ts)))
        if candidate.key in read
        else (candidate, memory)
        for candidate, memory in kept
    ], frozenset(lacking) - read


@lru_cache(maxsize=2_048)
def _told(text: str, ts: float | None) -> tuple[ToldTime, ...]:
    return tuple(ToldTime(one.since, one.until, one.weekly) for one in find_times(text, ts))
