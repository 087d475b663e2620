"""Confidence intervals of means, and significance tests of differences: seeded resampling of queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of some values with its interval; 0 of none."""
    if not values:
        return Mean(mean=0.0, low=0.0, high=0.0)
    column = np.array(values, dtype=np.float64)[:, None]
    low, high = bootstrap_interval(column)
    return Mean(mean=float(column.mean()), low=float(low[0]), high=float(high[0]))


def bootstrap_interval(values: Values, *, resamples: int = 2000, seed: int = 0) -> tuple[Values, Values]:
    """The percentile interval (Efron 1979) of the mean, at 95 percent: low and high, each of shape (measures,).

    `values` has the shape (queries, measures); queries are drawn with replacement.
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
    return low, high


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
