"""Scores by models: late interaction (MaxSim) of the candidates, and a cross-encoder for the best of them.

Each gives a further score part. Without an answer in time the order stays as it was, and the report says why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from orion_recall.errors import ModelError, SourceError
from orion_recall.models.embedder import Reranker
from orion_recall.profile import Profile
from orion_recall.recall.bundle.lines import body
from orion_recall.recall.pass_result import ModelReport
from orion_recall.recall.ranking.score import combine, in_context, in_order
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.sources.several_stores import Breaker
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import SourceStatus

T = TypeVar("T")
_NO_INDEX, _AWAY = "there is no index", "the index is away"
_NO_RERANKER = "the profile wants reranking and no reranker is configured: set ORION_RERANKER"


class Closeness(Protocol):
    """Compares a question with memories: see `sources.vector_lexical.LateInteraction`."""

    async def why_off(self) -> str | None: ...

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int]
    ) -> Mapping[int, float]: ...


async def _asked(
    call: Callable[[], Awaitable[T]], breaker: Breaker, *, timeout_s: float, is_short: bool
) -> tuple[T | None, ModelReport]:
    """What the model gives in time, behind its breaker; None with the reason in the report."""
    began = time.perf_counter()

    def without(status: SourceStatus, error: str) -> tuple[None, ModelReport]:
        return None, ModelReport(status=status, ms=(time.perf_counter() - began) * 1000, error=error)

    if timeout_s <= 0:
        return without("late", "no time was left")
    if not breaker.lets_through(time.monotonic(), is_short=is_short):
        return without("failed", f"left alone after: {breaker.last_error}")
    try:
        async with asyncio.timeout(timeout_s):
            found = await call()
    except TimeoutError:
        error = f"no answer within {timeout_s * 1000:.0f} ms"
        breaker.record_late(error, time.monotonic(), is_excused=is_short)
        return without("late", error)
    except (SourceError, ModelError) as error:
        breaker.record_error(error, time.monotonic())
        return without("failed", str(error))
    breaker.record(None, time.monotonic())
    return found, ModelReport(status="ok", ms=(time.perf_counter() - began) * 1000)


async def late_interaction(
    text: str,
    keys: Sequence[int],
    compared_by: Closeness | None,
    breaker: Breaker,
    *,
    timeout_s: float,
    is_short: bool = False,
    is_away: bool = False,
    passages: Mapping[int, int] = FIRST_PASSAGES,
) -> tuple[Mapping[int, float], ModelReport]:
    """The closeness of each compared candidate, by key, and the report. Raises nothing.

    Of a candidate in `passages` the passage of that number is compared. `scaled` makes the score part of it.
    `is_away`: the index has just not answered, and is not asked again. `is_short`: the caller leaves less than the
    index's own time, so that being late is not its fault.
    """
    if compared_by is None:
        return {}, ModelReport(status="off", error=_NO_INDEX)
    if is_away:
        return {}, ModelReport(status="failed", error=_AWAY)
    if not keys:
        return {}, ModelReport(status="empty")

    async def compared() -> tuple[str | None, Mapping[int, float]]:
        why = await compared_by.why_off()
        return (why, {}) if why is not None else (None, await compared_by.closeness(text, keys, passages))

    told, report = await _asked(compared, breaker, timeout_s=timeout_s, is_short=is_short)
    if told is None:
        return {}, report
    why, found = told
    if why is not None:
        return {}, replace(report, status="off", error=why)
    return found, replace(report, status="ok" if found else "empty", count=len(found))


def scaled(found: Mapping[int, float]) -> Mapping[int, float]:
    """The score part: from 0 for the least to 1 for the most; all 1 where there is no difference."""
    if not found:
        return found
    low, high = min(found.values()), max(found.values())
    span = high - low
    return {key: (value - low) / span if span > 0 else 1.0 for key, value in found.items()}


async def rerank(
    scored: Sequence[ScoredCandidate],
    question: str,
    profile: Profile,
    reranker: Reranker | None,
    breaker: Breaker,
    *,
    timeout_s: float,
    is_short: bool = False,
) -> tuple[list[ScoredCandidate], ModelReport]:
    """The candidates with their part `rerank`, best first again; unchanged when the reranker did not answer.

    The profile's `top_n` are judged, within the profile's time and `timeout_s`; `is_short`: the caller leaves less
    than the reranker's own time, so that being late is not its fault. A candidate that was not judged
    gets the lowest part of those that were: else it would gain by what the others lose.
    """
    judged = scored[: profile.rerank.top_n]
    if reranker is None:
        return [*scored], ModelReport(status="failed", error=_NO_RERANKER)
    if not judged:
        return [*scored], ModelReport(status="empty")
    allowed_s = min(profile.rerank.timeout_ms / 1000, timeout_s)
    texts = [body(item) for item in judged]
    found, report = await _asked(
        lambda: reranker.scores(question, texts), breaker, timeout_s=allowed_s, is_short=is_short
    )
    if found is None:
        return [*scored], report
    decides = scored[0].weights.get("time", 0.0) > profile.weights(reranked=False)["time"]
    weights = in_context(profile.weights(reranked=True, time_decides=decides), len(scored))
    parts = [*found, *[min(found)] * (len(scored) - len(judged))]
    blended = in_order(_with_part(item, part, weights) for item, part in zip(scored, parts, strict=True))
    keys = frozenset(item.candidate.key for item in judged)
    return blended, replace(report, count=len(judged), judged=keys)


def _with_part(item: ScoredCandidate, part: float, weights: dict[str, float]) -> ScoredCandidate:
    parts = {**item.parts, "rerank": part}
    return replace(item, parts=parts, weights=weights, score=combine(parts, weights))
