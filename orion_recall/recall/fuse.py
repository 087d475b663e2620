"""Many ranked lists into one.

Reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009): the sum of w / (k + rank) over the lists that hold
a memory, ranks from 1, equal scores sharing a rank. Min-max fusion sums w * score, each list's scores stretched to
[0, 1]. Both are divided by the best value possible for the lists that answered, so that fused is in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

from orion_recall.values import Candidate, Hit, SourceName, SourceReport


def fuse(
    reports: Sequence[SourceReport],
    *,
    method: Literal["rrf", "min_max"],
    k: int,
    weights: Mapping[SourceName, float],
) -> list[Candidate]:
    """One candidate a memory, best first; equal fused scores in the order of their keys.

    `best_source` is the source that ranked it best (the heavier one on a tie, then the first by name).
    """
    found: dict[UUID, Candidate] = {}
    possible = 0.0
    for report in reports:
        if not report.hits:
            continue
        weight = weights[report.source]
        possible += weight / (k + 1) if method == "rrf" else weight
        low = min(hit.score for hit in report.hits)
        span = max(hit.score for hit in report.hits) - low
        for hit, rank in zip(report.hits, ranks(report.hits), strict=True):
            candidate = found.get(hit.key)
            if candidate is None:
                candidate = found[hit.key] = Candidate(key=hit.key)
            elif report.source in candidate.ranks:
                continue  # a source that brings a memory twice has ranked it once, at the better place
            _add(candidate, hit, report.source, rank)
            if method == "rrf":
                candidate.fused += weight / (k + rank)
            else:
                candidate.fused += weight * ((hit.score - low) / span if span > 0 else 1.0)
    candidates = list(found.values())
    for fused in candidates:
        fused.fused = fused.fused / possible if possible > 0 else 0.0
        fused.best_source = _best_source(fused.ranks, weights)
    candidates.sort(key=lambda candidate: (-round(candidate.fused, 9), candidate.key.int))
    return candidates


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
