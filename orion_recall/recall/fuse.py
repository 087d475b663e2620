"""Many ranked lists into one.

Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): the sum of w / (k + rank) over the lists that hold
a memory, ranks from 1, equal scores sharing a rank. Min-max fusion sums w * score, each list's scores stretched to
[0, 1]. Both are divided by the best value possible for the lists that answered, so that fused is in [0, 1].
"""

from __future__ import annotations

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
) -> list[Candidate]:
    """One candidate a memory, best first, `limit` at most; equal fused scores in the order of their keys.

    `best_source` is the source that ranked it best (the heavier one on a tie, then the first by name).
    """
    lists = [(report, _ranked(report.hits)) for report in reports if report.hits]
    possible = 0.0
    fused: dict[int, float] = {}
    for report, ranked in lists:
        weight = weights[report.source]
        possible += weight / (k + 1) if method == "rrf" else weight
        low = min(hit.score for hit in report.hits)
        span = max(hit.score for hit in report.hits) - low
        for key, (rank, hit) in ranked.items():
            gain = 1 / (k + rank) if method == "rrf" else (hit.score - low) / span if span > 0 else 1.0
            fused[key] = fused.get(key, 0.0) + weight * gain
    # Objects are made only for those that go on: most of what a deep search finds does not.
    best = sorted(fused, key=lambda key: (-round(fused[key], 9), key))[:limit]
    return [_candidate(key, fused[key] / possible if possible > 0 else 0.0, lists, weights) for key in best]


def _ranked(hits: Sequence[Hit]) -> dict[int, tuple[int, Hit]]:
    """Rank and hit by key; a source that brings a memory twice has ranked it once, at the better place."""
    found: dict[int, tuple[int, Hit]] = {}
    for rank, hit in zip(ranks(hits), hits, strict=True):
        found.setdefault(hit.key, (rank, hit))
    return found


def _candidate(
    key: int,
    fused: float,
    lists: Sequence[tuple[SourceReport, Mapping[int, tuple[int, Hit]]]],
    weights: Mapping[SourceName, float],
) -> Candidate:
    candidate = Candidate(key=key, fused=fused)
    for report, ranked in lists:
        if (found := ranked.get(key)) is not None:
            _add(candidate, found[1], report.source, found[0])
    candidate.best_source = _best_source(candidate.ranks, weights)
    return candidate


def _best_source(held: Mapping[SourceName, int], weights: Mapping[SourceName, float]) -> SourceName:
    return min(held, key=lambda name: (held[name], -weights[name], name))


def ranks(hits: Sequence[Hit]) -> list[int]:
    """Ranks from 1 of hits that are best first; equal scores share the best of their ranks."""
    shared: list[int] = []
    for place, hit in enumerate(hits):
        same = place > 0 and hits[place - 1].score == hit.score
        shared.append(shared[-1] if same else place + 1)
    return shared


def _add(candidate: Candidate, hit: Hit, source: SourceName, rank: int) -> None:
    candidate.ranks[source] = rank
    candidate.scores[source] = hit.score
    if hit.memory is not None and candidate.memory is None:
        candidate.memory = hit.memory
    if hit.statements:
        candidate.statements = hit.statements
