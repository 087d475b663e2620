"""Measures of a profile that is tried, beside the one that answers: from pairs of their answers to one query.

Shadow, canary and replay make such pairs: a shadow after the reply, a replay from the log; of a canary each query
has one of the two answers. With A and B the ids of two answers in order, U and W what callers used and called
wrong:

    overlap@k      |A[:k] and B[:k]| / |A[:k] or B[:k]| (Jaccard); 1 where both are empty
    same_first     1 if both begin with the same memory, or both are empty
    identical      1 if A and B are the same ids in the same order
    flip           1 if one of them is empty and the other is not
    used_kept      |U and B| / |U|, where callers used something of the first answer
    wrong_removed  |W, not in B| / |W|, where callers called something of it wrong

and of each side alone the shares `empty`, `unsure` and `degraded` (or failed), `items`, `tokens`, `confidence`,
`ms`, and where callers used something `hit` and `mrr`: whether it is in the answer, and 1 / the rank of the
first. Likeness says that something changed, not that it is worse: only feedback says that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString

import numpy as np
import numpy.typing as npt

from orion_recall.decisions.memories import Judged, judgements
from orion_recall.postgres.pool import Pool, Row, borrow
from orion_recall.values import Outcome

Values = npt.NDArray[np.float64]

LEVEL = 0.95
LEVEL_Z = 1.959964
"""Standard deviations of the normal distribution between which that share lies."""
# The most numbers held in memory while resampling: 32 MiB.
_CELLS = 4_194_304
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean with its 95 percent interval."""

    mean: float
    low: float
    high: float


def means_of(values: Values, *, resamples: int = 2000, seed: int = 0) -> list[Mean]:
    """The mean of each column of (queries, measures) with its percentile interval (Efron 1979), at 95 percent.

    Queries are drawn with replacement.
    """
    random = np.random.default_rng(seed)
    rows = len(values)
    means: list[Values] = []
    for count in _portions(resamples, rows):
        drawn = random.integers(rows, size=(count, rows))
        drawn += np.arange(count)[:, None] * rows
        times = np.bincount(drawn.ravel(), minlength=count * rows).reshape(count, rows)
        means.append(times.astype(np.float64) @ values / rows)
    outside = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(np.concatenate(means), [outside, 100 - outside], axis=0)
    columns = zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    return [Mean(mean=mean, low=least, high=most) for mean, least, most in columns]


def _mean_of(values: Sequence[float]) -> Mean:
    return means_of(np.array(values, dtype=np.float64)[:, None])[0]


def randomisation_test(differences: Values, *, permutations: int = 10_000, seed: int = 0) -> Values:
    """Two-sided p of the mean difference, shape (measures,), by Fisher's randomisation test.

    `differences` has the shape (queries, measures); each query's sign is drawn at random. The observed assignment
    counts as one permutation, so p is never 0.
    """
    random = np.random.default_rng(seed)
    rows = len(differences)
    observed = np.abs(differences.sum(axis=0))
    as_large = np.ones(differences.shape[1])
    for count in _portions(permutations, rows):
        signs = random.integers(2, size=(count, rows)).astype(np.float64) * 2 - 1
        as_large += (np.abs(signs @ differences) >= observed - _ROUNDING * rows).sum(axis=0)
    return as_large / (permutations + 1)


def _portions(total: int, rows: int) -> Iterator[int]:
    most = max(1, _CELLS // max(1, rows))
    for start in range(0, total, most):
        yield min(most, total - start)


MOST_ANSWERS = 20_000
NOT_JUDGED = Judged()

_TRIALS: LiteralString = """
SELECT * FROM recall_trials
WHERE ($1::text IS NULL OR profile = $1) AND ($2::timestamptz IS NULL OR created_at >= $2)
ORDER BY created_at DESC, decision_id LIMIT $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer to a query: the ids of its bundle in order, and what is measured of it.

    `rendered` is its text, None for a logged one: the log holds no text of a memory.
    """

    ids: tuple[str, ...] = ()
    outcome: Outcome = "ok"
    unsure: bool = False
    tokens: int = 0
    confidence: float | None = None
    ms: float = 0.0
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    rendered: str | None = None

    def levels(self, judged: Judged = NOT_JUDGED) -> dict[str, float]:
        found = {
            "empty": float(self.outcome not in ("ok", "degraded", "failed")),
            "unsure": float(self.unsure),
            "degraded": float(self.outcome in ("degraded", "failed")),
            "items": float(len(self.ids)),
            "tokens": float(self.tokens),
        }
        if self.confidence is not None:
            found["confidence"] = self.confidence
        if judged.used:
            ranks = [rank for rank, name in enumerate(self.ids, 1) if name in judged.used]
            found |= {"hit": float(bool(ranks)), "mrr": 1 / ranks[0] if ranks else 0.0}
        return found | {"ms": self.ms}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The answers of both sides to one query (None: that side was not asked), and the feedback on the first."""

    before: Answer | None
    after: Answer | None
    judged: Judged = NOT_JUDGED

    @property
    def gained(self) -> tuple[str, ...]:
        return _only(self.after, self.before)

    @property
    def lost(self) -> tuple[str, ...]:
        return _only(self.before, self.after)

    def likeness(self, k: int) -> dict[str, float]:
        """The measures of both answers together, those that apply; none where one side was not asked."""
        if self.before is None or self.after is None:
            return {}
        a, b = self.before.ids, self.after.ids
        values = {
            f"overlap@{k}": overlap(a[:k], b[:k]),
            "same_first": float(a[:1] == b[:1]),
            "identical": float(a == b),
            "flip": float(bool(a) != bool(b)),
        }
        if self.judged.used:
            values["used_kept"] = len(self.judged.used.intersection(b)) / len(self.judged.used)
        if self.judged.wrong:
            values["wrong_removed"] = len(self.judged.wrong.difference(b)) / len(self.judged.wrong)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A measure of single answers on both sides: the means, and their difference with its interval.

    It is over the queries that both answered; where each answered its own, over all of either.
    """

    before: float
    after: float
    difference: Mean
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Both sides: `means` of how alike the answers are, each over so many queries, and `levels` of each side."""

    queries: int
    answers: tuple[int, int]
    means: Mapping[str, tuple[Mean, int]]
    levels: Mapping[str, Level]
    p50_ms: tuple[float, float]
    p95_ms: tuple[float, float]


def compared(pairs: Sequence[Pair], k: int) -> Compared:
    before = [one.before for one in pairs if one.before is not None]
    after = [one.after for one in pairs if one.after is not None]
    likeness = [values for one in pairs if (values := one.likeness(k))]
    times = tuple(np.array([answer.ms for answer in side] or [0.0]) for side in (before, after))
    return Compared(
        queries=len(pairs),
        answers=(len(before), len(after)),
        means={
            name: (_mean_of(values), len(values))
            for name in _names(likeness)
            if (values := [one[name] for one in likeness if name in one])
        },
        levels=_levels(pairs),
        p50_ms=(percentile(times[0], 50), percentile(times[1], 50)),
        p95_ms=(percentile(times[0], 95), percentile(times[1], 95)),
    )


def overlap(a: Sequence[str], b: Sequence[str]) -> float:
    """The share of what either has that both have; 1 for two empty lists."""
    either = {*a, *b}
    return len({*a} & {*b}) / len(either) if either else 1.0


def percentile(values: Sequence[float] | np.ndarray, share: float) -> float:
    """The smallest value that so many percent do not exceed; 0 of none."""
    return float(np.percentile(values, share, method="inverted_cdf")) if len(values) else 0.0


async def compared_trials(
    pool: Pool, *, profile: str | None = None, since: datetime | None = None, k: int = 5
) -> list[tuple[str, str, str, Compared]]:
    """Every trial over the newest 20,000 answers: shadow or canary, the profile, the tried one, both compared.

    Feedback counts where this login may read it. RecordError.
    """
    async with borrow(pool, "comparing profiles") as connection:
        rows = await connection.fetch(_TRIALS, profile, since, MOST_ANSWERS)
    judged = await judgements(
        pool, [row["decision_id"] for row in rows if row["kind"] == "canary" or row["side"] == "control"]
    )
    trials: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        key = (row["kind"], row["profile"], row["tried_profile"], row["trial"] or "")
        trials.setdefault(key, []).append(row)
    return [
        (kind, control, tried, compared(list(_pairs(of_trial, judged)), k))
        for (kind, control, tried, _), of_trial in sorted(trials.items())
    ]


def _pairs(rows: Sequence[Row], judged: Mapping[str, Judged]) -> Iterable[Pair]:
    """Both rows of a query in a pair; a query that one side answered is a pair with one."""
    both: dict[object, dict[str, Row]] = {}
    for row in rows:
        both.setdefault(row["pair"] or row["decision_id"], {})[row["side"]] = row
    for sides in both.values():
        control, tried = sides.get("control"), sides.get("tried")
        named = control or tried
        yield Pair(
            before=_answer(control),
            after=_answer(tried),
            judged=judged.get(str(named["decision_id"]), NOT_JUDGED) if named is not None else NOT_JUDGED,
        )


def _answer(row: Row | None) -> Answer | None:
    if row is None:
        return None
    return Answer(
        ids=tuple(row["selected_ids"]),
        outcome=row["outcome"],
        unsure=row["unsure"],
        tokens=row["tokens"],
        confidence=row["confidence"],
        ms=row["latency_ms"],
    )


def _levels(pairs: Sequence[Pair]) -> dict[str, Level]:
    sides = [
        [answer.levels(one.judged) if answer is not None else {} for answer in (one.before, one.after)]
        for one in pairs
    ]
    in_pairs = any(one.before is not None and one.after is not None for one in pairs)
    found: dict[str, Level] = {}
    for name in _names([*(one[0] for one in sides), *(one[1] for one in sides)]):
        told = [one for one in sides if name in one[0] and name in one[1]] if in_pairs else sides
        before, after = ([one[side][name] for one in told if name in one[side]] for side in (0, 1))
        if before and after:
            found[name] = Level(
                before=float(np.mean(before)),
                after=float(np.mean(after)),
                difference=_mean_of([b - a for a, b in zip(before, after, strict=True)])
                if in_pairs
                else _of_two(before, after),
                queries=len(before) if in_pairs else len(before) + len(after),
            )
    return found


def _of_two(before: Sequence[float], after: Sequence[float]) -> Mean:
    """The difference of two means of other queries, with the interval of the normal distribution."""
    between = float(np.mean(after) - np.mean(before))
    spread = LEVEL_Z * float(np.sqrt(np.var(before) / len(before) + np.var(after) / len(after)))
    return Mean(mean=between, low=between - spread, high=between + spread)


def _only(one: Answer | None, other: Answer | None) -> tuple[str, ...]:
    others = frozenset(other.ids if other is not None else ())
    return tuple(name for name in (one.ids if one is not None else ()) if name not in others)


def _names(values: Iterable[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in values for name in one))
