"""Late interaction: the words of the question against those of each candidate (MaxSim), and how it went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orion_recall.errors import ModelError, SourceError
from orion_recall.sources.several_stores import Breaker
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """The report of reranking, where the profile has it on: memories judged, milliseconds, why the order stayed.

    `judged` are the keys of those memories.
    """

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None
    judged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteractionReport:
    """The report of late interaction, where the profile has it on: memories compared, milliseconds, and any error.

    `off`: embedder or index do not offer it.
    """

    status: SourceStatus
    count: int = 0
    ms: float = 0.0
    error: str | None = None


_NOTHING: Mapping[int, float] = {}
_NO_INDEX, _AWAY = "there is no index", "the index is away"


class Closeness(Protocol):
    """Compares a question with memories: see `sources.vector_lexical.LateInteraction`."""

    async def why_off(self) -> str | None: ...

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int]
    ) -> Mapping[int, float]: ...


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
) -> tuple[Mapping[int, float], LateInteractionReport]:
    """The closeness of each compared candidate, by key, and the report. Raises nothing.

    Of a candidate in `passages` the passage of that number is compared. `scaled` makes the score part of it.
    `is_away`: the index has just not answered, and is not asked again. `is_short`: the caller leaves less than the
    index's own time, so that being late is not its fault.
    """
    began = time.perf_counter()

    def without(status: SourceStatus, error: str | None) -> tuple[Mapping[int, float], LateInteractionReport]:
        return _NOTHING, LateInteractionReport(status=status, ms=(time.perf_counter() - began) * 1000, error=error)

    if compared_by is None:
        return without("off", _NO_INDEX)
    if is_away:
        return without("failed", _AWAY)
    if not keys:
        return without("empty", None)
    if timeout_s <= 0:
        return without("late", "no time was left")
    if not breaker.lets_through(time.monotonic(), is_short=is_short):
        return without("failed", f"left alone after: {breaker.last_error}")
    try:
        async with asyncio.timeout(timeout_s):
            if (why := await compared_by.why_off()) is not None:
                breaker.record(None, time.monotonic())
                return without("off", why)
            found = await compared_by.closeness(text, keys, passages)
    except TimeoutError:
        error = f"no answer within {timeout_s * 1000:.0f} ms"
        breaker.record_late(error, time.monotonic(), is_excused=is_short)
        return without("late", error)
    except (SourceError, ModelError) as error:
        breaker.record_error(error, time.monotonic())
        return without("failed", str(error))
    breaker.record(None, time.monotonic())
    if not found:
        return without("empty", None)
    ms = (time.perf_counter() - began) * 1000
    return found, LateInteractionReport(status="ok", count=len(found), ms=ms)


def scaled(found: Mapping[int, float]) -> Mapping[int, float]:
    """The score part: from 0 for the least to 1 for the most; all 1 where there is no difference."""
    if not found:
        return found
    low, high = min(found.values()), max(found.values())
    span = high - low
    return {key: (value - low) / span if span > 0 else 1.0 for key, value in found.items()}
