"""Reranking: a cross-encoder scores the best candidates, reading question and memory together.

It gives a further score part, `rerank`, with its own weight. Without an answer in time the order stays as it was,
and the report says why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from orion_recall.errors import ModelError
from orion_recall.models.reranker import Reranker
from orion_recall.profile import Profile
from orion_recall.recall.bundle.lines import body
from orion_recall.recall.ranking.late_interaction import RerankReport
from orion_recall.recall.ranking.score import combine, in_context, in_order
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.several_stores import Breaker
from orion_recall.values import SourceStatus

_NONE = "the profile wants reranking and no reranker is configured: set ORION_RERANKER"


async def rerank(
    scored: Sequence[ScoredCandidate],
    question: str,
    profile: Profile,
    reranker: Reranker | None,
    breaker: Breaker,
    *,
    timeout_s: float,
    is_short: bool = False,
) -> tuple[list[ScoredCandidate], RerankReport]:
    """The candidates with their part `rerank`, best first again; unchanged when the reranker did not answer.

    The profile's `top_n` are judged, within the profile's time and `timeout_s`; `is_short`: the caller leaves less
    than the reranker's own time, so that being late is not its fault. A candidate that was not judged
    gets the lowest part of those that were: else it would gain by what the others lose."""
    wanted = profile.rerank
    judged = scored[: wanted.top_n]
    began = time.perf_counter()

    def unchanged(status: SourceStatus, error: str | None) -> tuple[list[ScoredCandidate], RerankReport]:
        ms = (time.perf_counter() - began) * 1000
        return list(scored), RerankReport(status=status, ms=ms, error=error)

    if reranker is None:
        return unchanged("failed", _NONE)
    if not judged:
        return unchanged("empty", None)
    allowed_s = min(wanted.timeout_ms / 1000, timeout_s)
    if allowed_s <= 0:
        return unchanged("late", "no time was left")
    if not breaker.lets_through(time.monotonic(), is_short=is_short):
        return unchanged("failed", f"left alone after: {breaker.last_error}")
    try:
        async with asyncio.timeout(allowed_s):
            found = await reranker.scores(question, [body(item) for item in judged])
    except TimeoutError:
        error = f"no answer within {allowed_s * 1000:.0f} ms"
        breaker.record_late(error, time.monotonic(), is_excused=is_short)
        return unchanged("late", error)
    except ModelError as error:
        breaker.record(str(error), time.monotonic())
        return unchanged("failed", str(error))
    breaker.record(None, time.monotonic())
    decides = scored[0].weights.get("time", 0.0) > profile.weights(reranked=False)["time"]
    weights = in_context(profile.weights(reranked=True, time_decides=decides), len(scored))
    parts = [*found, *[min(found)] * (len(scored) - len(judged))]
    blended = in_order(_with_part(item, part, weights) for item, part in zip(scored, parts, strict=True))
    ms = (time.perf_counter() - began) * 1000
    keys = frozenset(item.candidate.key for item in judged)
    return blended, RerankReport(status="ok", count=len(judged), ms=ms, judged=keys)


def _with_part(item: ScoredCandidate, part: float, weights: dict[str, float]) -> ScoredCandidate:
    parts = {**item.parts, "rerank": part}
    return replace(item, parts=parts, weights=weights, score=combine(parts, weights))
