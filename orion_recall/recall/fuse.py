"""Many ranked lists into one.

Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): the sum of w / (k + rank) over the lists that hold
a memory, ranks from 1, equal scores sharing a rank. Min-max fusion sums w * score, each list's scores stretched to
[0, 1]. Both are divided by the best value possible for the lists that answered, so that fused is in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from orion_recall.values import Candidate, Hit, SourceName, SourceReport


def fuse(
    reports: Sequence[SourceReport],
    *,
    method: Literal["rrf", "min_max"],
    k: int,
    weights: Mapping[SourceName, float],
    limit: int | None = None,
    within: Sequence[SourceReport] = (),
    within_weight: float = 0.0,
) -> list[Candidate]:
    """One candidate a memory, best first, `limit` at most; equal fused scores in the order of their keys.

    `within` are further lists of the sources, each with the weight `within_weight`.

    `best_source` is the source that ranked it best (the heavier one on a tie, then the first by name).
    """
    answered = [
        *sorted(
            [(weights[report.source], report) for report in reports if report.hits],
            key=lambda one: (-one[0], one[1].source),
        ),
        *((within_weight, report) for report in within if report.hits),
    ]
    lists: list[tuple[SourceName, Mapping[int, tuple[int, Hit]]]] = [
        (report.source, _ranked(report.hits)) for _, report in answered
    ]
    possible = 0.0
    fused: dict[int, float] = {}
    for (weight, report), (_, ranked) in zip(answered, lists, strict=True):
        possible += weight / (k + 1) if method == "rrf" else weight
        low = report.hits[-1].score
        span = report.hits[0].score - low
        for key, (rank, hit) in ranked.items():
            gain = 1 / (k + rank) if method == "rrf" else (hit.score - low) / span if span > 0 else 1.0
            fused[key] = fused.get(key, 0.0) + weight * gain
    # Objects are made only for those that go on: most of what a deep search finds does not.
    best = sorted([(-round(score, 9), key) for key, score in fused.items()])[:limit]
    return [_candidate(key, fused[key] / possible if possible > 0 else 0.0, lists) for _, key in best]


def _ranked(hits: Sequence[Hit]) -> dict[int, tuple[int, Hit]]:
    """Rank and hit by key; a source that brings a memory twice has ranked it once, at the better place."""
    found: dict[int, tuple[int, Hit]] = {}
    rank, last = 0, math.inf
    for place, hit in enumerate(hits, start=1):
        key, score = hit[:2]
        if score != last:
            rank, last = place, score
        if key not in found:
            found[key] = rank, hit
    return found


def _candidate(
    key: int, fused: float, lists: Sequence[tuple[SourceName, Mapping[int, tuple[int, Hit]]]]
) -> Candidate:
    """What the lists say of one memory. They come heaviest first, so that the first of equal ranks wins."""
    candidate = Candidate(key=key, fused=fused)
    best: float = math.inf
    for source, ranked in lists:
        if (found := ranked.get(key)) is None:
            continue
        rank, (_, score, read, statements, path, source_ref) = found
        if source not in candidate.ranks:  # else it is a further list's, which ranks fewer
            candidate.ranks[source], candidate.scores[source] = rank, score
        if rank < best:
            best, candidate.best_source, candidate.source_ref = rank, source, source_ref
        if candidate.read is None:
            candidate.read = read
        if statements:
            candidate.statements, candidate.path = statements, path
    return candidate


def similarities_of(reports: Sequence[SourceReport], pool: Sequence[Candidate]) -> Mapping[int, float]:
    """The cosines of all that the dense search found. What was found in its place has none, only its rank."""
    by_meaning = [report for report in reports if report.source == "vector"]
    if by_meaning and all(report.stood_in is None for report in by_meaning):
        return {hit.key: hit.score for report in by_meaning for hit in report.hits}
    for candidate in pool:
        candidate.scores.pop("vector", None)
    return {}
