"""The score of a candidate, the mean of its score parts weighted by the profile; and the order of what is shown.

score = sum(weight * part) / sum(weight) over the parts that are present. Late interaction (MaxSim) of the
candidates, and a cross-encoder for the best of them, each give a further part: without an answer in time the order
stays as it was, and the report says why.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError, SourceError
from orion_recall.profile import Profile
from orion_recall.profile.sections import section_values
from orion_recall.recall.bundle.select import body
from orion_recall.recall.types import Dropped, ModelReport, PassResult, Pool
from orion_recall.scoring.candidates import (
    READ_CHARS,
    Candidate,
    Column,
    PartsInColumns,
    QueryFacts,
    ScoredCandidate,
)
from orion_recall.scoring.parts import part_columns
from orion_recall.sources.several_stores import Breaker
from orion_recall.text.inert import instructs_reader
from orion_recall.text.normal import is_question
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import MemoryView, ReaderInstructions, SourceStatus

# Scores that are at least this share of the best one are about equal; so many of them tell nothing apart.
_ALIKE, _MANY = 0.7, 16
LATE_SPAN: Final = 0.3
"""Late interaction of a hundred candidates spans as much, but for one question in ten."""
BY_CHANCE: Final = 0.05
"""Closeness that a text of more than `LONG_CHARS` loses each time that it is twice as long, up to `PASSAGE_CHARS`,
the length of what is compared. Texts that answer nothing gain .01 to .04 (eleven sets)."""
LONG_CHARS: Final = 240
PASSAGE_CHARS: Final = 900
CROWD = 48
"""The number of candidates from which on what stands around a memory counts in full."""
_OF_CONTEXT = frozenset(("neighbour", "session"))
FUSION, LATE = "fusion", "late"


def score_candidates(
    candidates: Sequence[tuple[Candidate, MemoryView]], profile: Profile, facts: QueryFacts
) -> list[ScoredCandidate]:
    """Every candidate with its score, best first: by score to 1e-6, then the newer one, then by id."""
    columns = part_columns(
        candidates,
        facts,
        section_values(profile.ranking),
        half_life_hours=profile.half_life_hours,
        recency_minimum=profile.recency_floor,
    )
    if not columns:
        return []
    used = partial(in_context, candidates=len(candidates), compared=LATE in columns)
    weights = used(profile.weights(reranked=False))
    scores = _combined(columns, weights)
    if profile.time.past_search_weight > 0 and facts.time.is_past(facts.now) and _time_decides(columns, scores):
        weights = used(profile.weights(reranked=False, time_decides=True))
        scores = _combined(columns, weights)
    ordered = [  # as `in_order` has it; no two have a place in common, so that nothing after it is compared
        (-score, math.inf if (ts := memory.ts) is None else -ts, memory.id, place, candidate, memory)
        for place, (score, (candidate, memory)) in enumerate(zip(scores, candidates, strict=True))
    ]
    ordered.sort()
    return [
        ScoredCandidate(
            candidate=candidate,
            memory=memory,
            score=-negative,
            parts=PartsInColumns(columns, place),
            weights=weights,
        )
        for negative, _, _, place, candidate, memory in ordered
    ]


def in_context(weights: Mapping[str, float], candidates: int, *, compared: bool) -> dict[str, float]:
    """The weights; those of what stands around a memory only count in full among many candidates: in a store of
    five memories everything is beside everything. Who is named counts up to twice as much there: of a crowd a
    person says much that answers nothing. Where late interaction has `compared` none of them, what the sources
    found has its weight, too: else what is around a memory would outweigh what it says."""
    share = min(1.0, candidates / CROWD)
    shares = dict.fromkeys(_OF_CONTEXT, share) | {"speaker": 2.0 - share}
    used = {name: weight * shares.get(name, 1.0) for name, weight in weights.items()}
    if not compared:
        used[FUSION] += used[LATE]
        used[LATE] = 0.0
    return used


def _time_decides(columns: Mapping[str, Column], scores: Sequence[float]) -> bool:
    """Whether so many memories of other times fit about equally well that the time must tell which is meant."""
    others = [score for score, fit in zip(scores, columns.get("time", ()), strict=False) if fit == 0.0]
    alike = _ALIKE * max(others, default=0.0)
    return sum(score >= alike for score in others) >= _MANY


def in_order(scored: Iterable[ScoredCandidate]) -> list[ScoredCandidate]:
    """Best first: by score, then the newer one, then by id."""
    items = [*scored]
    ordered = [
        (-item.score, math.inf if (ts := item.memory.ts) is None else -ts, item.memory.id, place)
        for place, item in enumerate(items)
    ]
    ordered.sort()
    return [items[place] for *_, place in ordered]


def _combined(columns: Mapping[str, Column], weights: Mapping[str, float]) -> list[float]:
    """The weighted means, as `combine` gives them, for all candidates at once: parts are added in their order."""
    weighted = [(share, column) for name, column in columns.items() if (share := weights.get(name, 0.0))]
    if not weighted:
        return [0.0] * len(next(iter(columns.values())))
    shares = np.array([[share] for share, _ in weighted])
    values = np.array([column for _, column in weighted], dtype=np.float64)  # None becomes NaN
    missing = np.isnan(values)
    means: npt.NDArray[np.float64]
    if missing.any():
        total: npt.NDArray[np.float64] = (shares * np.where(missing, 0.0, values)).sum(axis=0)
        weight: npt.NDArray[np.float64] = (shares * ~missing).sum(axis=0)
        means = total / np.where(weight > 0, weight, 1.0)
    else:  # the weights are added in their order, which numpy's sum of a column need not do
        means = (shares * values).sum(axis=0) / np.cumsum(shares)[-1]
    scores: list[float] = np.round(means, 6).tolist()
    return scores


def combine(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted mean of the parts that are present, rounded to 1e-6; 0 when none of them weighs anything."""
    total = weight = 0.0
    for name, value in parts.items():
        share = weights[name]
        total += share * value
        weight += share
    return round(total / weight, 6) if weight > 0 else 0.0


SUBSTANCE, TURN = "substance", "turn"
WEIGHTS: Final = {SUBSTANCE: 2.0, TURN: 1.0}
_WHOLE_LENGTH: Final = 160
_DAY_S: Final = 86_400.0
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w")


def in_recap(kept: Sequence[tuple[Candidate, MemoryView]]) -> list[ScoredCandidate]:
    """The candidates, scored as a recap needs them, best first."""
    told = [(substance(memory), candidate, memory) for candidate, memory in kept]
    told.sort(key=lambda one: (-one[0], one[2].ts or 0.0, one[2].id))
    places: dict[str | float, int] = {}
    scored: list[ScoredCandidate] = []
    for value, candidate, memory in told:
        session = memory.session_id or (memory.ts or 0.0) // _DAY_S
        places[session] = place = places.get(session, 0) + 1
        parts = {SUBSTANCE: value, TURN: 0.0 if memory.chatter else 1 / place}
        score = round(sum(WEIGHTS[name] * part for name, part in parts.items()) / sum(WEIGHTS.values()), 6)
        scored.append(
            ScoredCandidate(candidate=candidate, memory=memory, score=score, parts=parts, weights=WEIGHTS)
        )
    return in_order(scored)


def substance(memory: MemoryView) -> float:
    """How much a text tells, in [0, 1]: its length, and whether it has a number, a time or a name in it; a question
    half of that, chatter nothing."""
    if memory.chatter:
        return 0.0
    text = memory.text[:READ_CHARS]
    value = 0.5 * min(1.0, len(text) / _WHOLE_LENGTH)
    value += 0.25 * (bool(memory.told) or any(one.isdigit() for one in text)) + 0.25 * bool(_NAME.search(text))
    return value / 2 if is_question(text) else value


def said_once(ranked: Sequence[ScoredCandidate], dropped: Dropped) -> list[ScoredCandidate]:
    """The candidates, each text (in normal form) once: the first of equal ones, with those of other speakers or
    days as its `same`. One that the same speaker said on the same day is dropped as a near-duplicate."""
    if len({item.memory.text_hash for item in ranked}) == len(ranked):
        return [*ranked]
    groups: dict[str, dict[tuple[str | None, float | None], ScoredCandidate]] = {}
    for item in ranked:
        memory = item.memory
        group = groups.setdefault(memory.text_hash, {})
        first = group.setdefault((memory.speaker, None if memory.ts is None else memory.ts // _DAY_S), item)
        if first is not item:
            dropped.note("near_duplicate", item.candidate.key, for_key=first.candidate.key)
    kept: list[ScoredCandidate] = []
    for group in groups.values():
        first, *others = group.values()
        kept.append(replace(first, same=tuple(others)) if others else first)
    return kept


def instructs(memory: MemoryView) -> bool:
    """Whether text or title of a memory has an instruction to whoever reads it."""
    return instructs_reader(memory.text) or instructs_reader(memory.title or "")


def with_instructing(result: PassResult, use: ReaderInstructions) -> PassResult:
    """The result with memories that instruct their reader held, or down; else as it is."""
    if use not in ("down", "hold"):
        return result
    down = [item for item in result.ranked if instructs(item.memory)]
    if not down:
        return result
    keys = {item.candidate.key for item in down}
    others = [item for item in result.ranked if item.candidate.key not in keys]
    if use == "hold":
        for key in keys:
            result.dropped.note("instructs_reader", key)
        down = []
    return replace(result, ranked=(*others, *down))


T = TypeVar("T")
_NO_INDEX, _AWAY = "there is no index", "the index is away"
_NO_RERANKER = "the profile wants reranking and no reranker is configured: set ORION_RERANKER"


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
    pool: Pool, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
) -> tuple[Mapping[int, float], ModelReport | None]:
    """The closeness of each compared candidate, by key, and the report; None where the profile has it off. Raises
    nothing.

    Of a candidate in `passages` the passage of that number is compared. `scaled` makes the score part of it.
    """
    sources, timeout_s = pool.sources, pool.source_left_s
    if not pool.profile.ranking.late:
        return {}, None
    if (compared_by := sources.late_interaction) is None:
        return {}, ModelReport(status="off", error=_NO_INDEX)
    if pool.is_away:
        return {}, ModelReport(status="failed", error=_AWAY)
    if not keys:
        return {}, ModelReport(status="empty")
    found, report = await _asked(
        lambda: compared_by(pool.question.dense_text, keys, passages),
        sources.late_breaker,
        timeout_s=timeout_s,
        # The caller leaves less than the index's own time, so that being late is not its fault.
        is_short=pool.limits.leaves_less(timeout_s, pool.limits.own_s, after_s=pool.times.seconds),
    )
    if found is None or isinstance(found, str):  # why it is off
        return {}, report if found is None else replace(report, status="off", error=found)
    return found, replace(report, status="ok" if found else "empty", count=len(found))


def scaled(found: Mapping[int, float], chars: Mapping[int, int]) -> Mapping[int, float]:
    """The score part: 1 for the most, and 0 for the least where that is `LATE_SPAN` or more below.

    Closer ones get more than 0 at the least: three memories that differ by a hair stay a hair apart. `chars` are
    the lengths of the memories' texts: a long one is closer to any question, since it has more words to be near
    to."""
    if not found:
        return found
    length = chars.get
    near = {
        key: value - BY_CHANCE * math.log2(min(long, PASSAGE_CHARS) / LONG_CHARS)
        if (long := length(key, 0)) > LONG_CHARS
        else value
        for key, value in found.items()
    }
    low, high = min(near.values()), max(near.values())
    span = max(high - low, LATE_SPAN)
    return {key: 1.0 - (high - value) / span for key, value in near.items()}


async def rerank(pool: Pool) -> tuple[list[ScoredCandidate], ModelReport]:
    """The scored candidates with their part `rerank`, best first again; unchanged when the reranker did not answer.

    The profile's `top_n` are judged, within its time and the pass's. A candidate that was not judged gets the
    lowest part of those that were: else it would gain by what the others lose.
    """
    scored, profile, reranker = pool.found.scored, pool.profile, pool.sources.reranker
    judged = scored[: profile.rerank.top_n]
    if reranker is None:
        return [*scored], ModelReport(status="failed", error=_NO_RERANKER)
    if not judged:
        return [*scored], ModelReport(status="empty")
    left_s, own_s = pool.left_s, profile.rerank.timeout_ms / 1000
    texts = [body(item) for item in judged]
    found, report = await _asked(
        lambda: reranker.scores(pool.question.text, texts),
        pool.sources.rerank_breaker,
        timeout_s=min(own_s, left_s),
        is_short=pool.limits.leaves_less(left_s, own_s, after_s=pool.times.seconds),
    )
    if found is None:
        return [*scored], report
    decides = scored[0].weights.get("time", 0.0) > profile.weights(reranked=False)["time"]
    weights = in_context(
        profile.weights(reranked=True, time_decides=decides), len(scored), compared=LATE in scored[0].parts
    )
    parts = [*found, *[min(found)] * (len(scored) - len(judged))]
    blended = in_order(_with_part(item, part, weights) for item, part in zip(scored, parts, strict=True))
    keys = frozenset(item.candidate.key for item in judged)
    return blended, replace(report, count=len(judged), judged=keys)


def _with_part(item: ScoredCandidate, part: float, weights: dict[str, float]) -> ScoredCandidate:
    parts = {**item.parts, "rerank": part}
    return replace(item, parts=parts, weights=weights, score=combine(parts, weights))
