"""Sums a replay up: means with their 95 % intervals, over all queries and by class, and what changed most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from orion_recall.evaluation.decision_replay.logged import Answer, Judged, LoggedQuery
from orion_recall.evaluation.decision_replay.measures import Change, change, levels
from orion_recall.evaluation.decision_replay.run import Replayed, ReplayRun
from orion_recall.evaluation.intervals import bootstrap_interval, randomisation_test
from orion_recall.evaluation.score import Mean

Against = Literal["control", "logged"]
_NOT_JUDGED = Judged()


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A measure of single answers before and after: the means, and the mean difference with its interval."""

    before: float
    after: float
    difference: Mean
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanOf:
    """A mean over so many queries."""

    mean: Mean
    queries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedChange:
    """Of the queries with feedback: how many answers are better, as good, worse, and p by a randomisation test.

    Better has more memories that callers used, or fewer that they called wrong.
    """

    wins: int
    ties: int
    losses: int
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two answers to each of some queries: `means` of how alike they are, `levels` of each side alone.

    `p95_ms` is the 95th percentile of the times, before and after. `judged` is None without feedback.
    """

    queries: int
    means: Mapping[str, MeanOf]
    levels: Mapping[str, Level]
    p95_ms: tuple[float, float]
    judged: JudgedChange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPair:
    """Two answers to one query, what changed between them, and what callers said of the logged one."""

    before: Answer
    after: Answer
    change: Change
    judged: Judged = _NOT_JUDGED

    @classmethod
    def of(cls, before: Answer, after: Answer, k: int, judged: Judged = _NOT_JUDGED) -> AnswerPair:
        """The pair with its measures."""
        return cls(before=before, after=after, change=change(before, after, k, judged), judged=judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedQuery:
    """One query that was asked again, with the pair of its answers that is compared."""

    replayed: Replayed
    pair: AnswerPair


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A replay summed up. `drift` is the control against the log; `profile` the tried profile against `against`.

    `why` counts what may be the reasons where the control is not the logged answer. `pairs` are all queries with
    the answers compared (without a tried profile, those of the drift), `changed` those of them that differ,
    the most different first.
    """

    drift: Compared
    profile: Compared | None
    by_class: Mapping[str, Compared]
    by_profile: Mapping[str, Compared]
    by_tenant: Mapping[str, Compared]
    against: Against
    k: int
    erased: int
    why: Mapping[str, int]
    pairs: tuple[ChangedQuery, ...]
    changed: tuple[ChangedQuery, ...]

    @property
    def compared(self) -> Compared:
        """The comparison that the replay is about."""
        return self.profile if self.profile is not None else self.drift


def summed_up(run: ReplayRun, *, k: int, against: Against = "control") -> Summary:
    """The summary of a replay; its measures are those of the module `measures`."""
    drift = [_pair(one, one.logged.answer, one.control, k) for one in run.queries]
    pairs = [
        _pair(one, one.control if against == "control" else one.logged.answer, one.tried, k)
        for one in run.queries
        if one.tried is not None
    ]
    shown = pairs or drift
    changed = sorted((one for one in shown if one.pair.before.ids != one.pair.after.ids), key=_rbo)
    return Summary(
        drift=_compared(drift),
        profile=_compared(pairs) if pairs else None,
        by_class=_by(shown, lambda one: one.query_class),
        by_profile=_by(shown, lambda one: one.profile),
        by_tenant=_by(shown, lambda one: one.tenant),
        against=against,
        k=k,
        erased=sum(bool(one.erased) for one in run.queries),
        why=Counter(one.why for one in run.queries if one.why is not None),
        pairs=tuple(shown),
        changed=tuple(changed),
    )


def compared(pairs: Sequence[AnswerPair]) -> Compared:
    """The comparison of these pairs of answers."""
    before, after = [levels(one.before) for one in pairs], [levels(one.after) for one in pairs]
    values = [one.change.values for one in pairs]
    worths = [_worth(one) for one in pairs if one.judged != _NOT_JUDGED]
    return Compared(
        queries=len(pairs),
        means={name: _mean_of([one[name] for one in values if name in one]) for name in _names(values)},
        levels={name: _level(name, before, after) for name in _names(before) if name in _names(after)},
        p95_ms=(_p95([one.before.ms for one in pairs]), _p95([one.after.ms for one in pairs])),
        judged=_judged(worths) if worths else None,
    )


def _pair(one: Replayed, before: Answer, after: Answer, k: int) -> ChangedQuery:
    return ChangedQuery(replayed=one, pair=AnswerPair.of(before, after, k, one.logged.judged))


def _compared(changed: Sequence[ChangedQuery]) -> Compared:
    return compared([one.pair for one in changed])


def _by(pairs: Sequence[ChangedQuery], group: Callable[[LoggedQuery], str]) -> dict[str, Compared]:
    names = sorted({group(one.replayed.logged) for one in pairs})
    return {name: _compared([one for one in pairs if group(one.replayed.logged) == name]) for name in names}


def _rbo(one: ChangedQuery) -> float:
    return one.pair.change.values["rbo"]


def _worth(one: AnswerPair) -> int:
    """How many more used memories the second answer has than the first, less how many more wrong ones."""

    def worth(answer: Answer) -> int:
        return len(one.judged.used.intersection(answer.ids)) - len(one.judged.wrong.intersection(answer.ids))

    return worth(one.after) - worth(one.before)


def _judged(worths: Sequence[int]) -> JudgedChange:
    p = randomisation_test(np.array(worths, dtype=np.float64)[:, None])
    wins, losses = sum(worth > 0 for worth in worths), sum(worth < 0 for worth in worths)
    return JudgedChange(wins=wins, ties=len(worths) - wins - losses, losses=losses, p=float(p[0]))


def _names(values: Sequence[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in values for name in one))


def _mean_of(values: Sequence[float]) -> MeanOf:
    return MeanOf(mean=_mean(values), queries=len(values))


def _level(name: str, before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]]) -> Level:
    both = [(a[name], b[name]) for a, b in zip(before, after, strict=True) if name in a and name in b]
    return Level(
        before=_mean([a for a, _ in both]).mean,
        after=_mean([b for _, b in both]).mean,
        difference=_mean([b - a for a, b in both]),
        queries=len(both),
    )


def _p95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95)) if values else 0.0


def _mean(values: Sequence[float]) -> Mean:
    if not values:
        return Mean(mean=0.0, low=0.0, high=0.0)
    column = np.array(values, dtype=np.float64)[:, None]
    low, high = bootstrap_interval(column)
    return Mean(mean=float(column.mean()), low=float(low[0]), high=float(high[0]))
