"""ListNet: learns the weights of a linear score from judged lists (top-one softmax, Cao and others 2007).

The softmax over a query's candidates should give all its mass to the evidence, in equal shares. With L2 this is
convex in the weights. Weights below zero are excluded: a score part never counts against a memory. Solved by
projected Newton steps: a dozen weights take milliseconds an iteration.

A candidate may have a sample weight below 1, which scales its softmax mass. So a memory that was passed over, and
perhaps overlooked, counts less than one that was called wrong, and one that was not shown does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orion_recall.errors import EvaluationError

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_Problem = tuple[Values, Values, Values, float, Values]  # features, outside, wanted, l2, near

_STEPS = 200
_CLOSE = 1e-6
_OUT = -1e9


def learn_weights(
    lists: Sequence[Values],
    relevant: Sequence[Flags],
    *,
    l2: float = 1.0,
    counted: Sequence[Values] | None = None,
    near: Values | None = None,
) -> Values:
    """The learned weights, one for each column of `lists`, none below 0.

    `lists` holds each query's candidates, of shape (candidates, parts), missing parts NaN; `relevant` marks the
    evidence. A missing part is replaced by the query's mean. Queries whose candidates are all evidence, or none,
    are skipped. EvaluationError when no query is left.

    `counted` is the sample weight of each candidate, 0 to 1; that of evidence is 1. L2 pulls the weights to `near`
    (default 0), of the same shape as the weights: weights on which the lists have no bearing stay there.
    """
    if counted is not None:
        # Candidates of weight 0 are removed, so that they do not count in the means either.
        relevant = [flags[counts > 0] for flags, counts in zip(relevant, counted, strict=True)]
        lists = [values[counts > 0] for values, counts in zip(lists, counted, strict=True)]
        counted = [counts[counts > 0] for counts in counted]
    used = [place for place, flags in enumerate(relevant) if flags.any() and not flags.all()]
    if not used:
        raise EvaluationError("no query has evidence and something else among its candidates that is judged")
    values = [_centred(lists[place]) for place in used]
    longest = max(map(len, values))
    features = np.zeros((len(used), longest, lists[used[0]].shape[1]))
    outside = np.full((len(used), longest), _OUT)
    wanted = np.zeros((len(used), longest))
    for row, (place, one) in enumerate(zip(used, values, strict=True)):
        features[row, : len(one)] = one
        outside[row, : len(one)] = 0.0 if counted is None else np.log(counted[place])
        wanted[row, : len(one)] = relevant[place] / relevant[place].sum()
    return _minimum(features, outside, wanted, l2, np.zeros(features.shape[2]) if near is None else near)


def _centred(values: Values) -> Values:
    """Each part minus its mean over the candidates that have it, which changes no softmax; missing ones are 0."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    means = filled.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.where(there, filled - means, 0.0)


def _minimum(features: Values, outside: Values, wanted: Values, l2: float, near: Values) -> Values:
    weights = np.ones(features.shape[2])
    for _ in range(_STEPS):
        shares = _softmax(features @ weights + outside)
        gradient = np.einsum("qn,qnp->p", shares - wanted, features) + l2 * (weights - near)
        means = np.einsum("qn,qnp->qp", shares, features)
        flat = (features * np.sqrt(shares)[:, :, None]).reshape(-1, len(weights))
        curvature = flat.T @ flat - means.T @ means + l2 * np.eye(len(weights))
        free = (weights > 0) | (gradient < 0)
        if not free.any() or np.abs(gradient[free]).max() < _CLOSE:
            break
        step = np.zeros_like(weights)
        step[free] = -np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        weights, moved = _along((features, outside, wanted, l2, near), weights, step)
        if moved < _CLOSE:
            break
    return weights


def _along(problem: _Problem, weights: Values, step: Values) -> tuple[Values, float]:
    """Backtracking line search: the first point with a lower loss, and its distance."""
    before, share = _loss(*problem, weights), 1.0
    while share > _CLOSE:
        other = np.maximum(weights + share * step, 0.0)
        if _loss(*problem, other) < before:
            return other, float(np.abs(other - weights).max())
        share /= 2
    return weights, 0.0


def _loss(features: Values, outside: Values, wanted: Values, l2: float, near: Values, weights: Values) -> float:
    scores, moved = features @ weights, weights - near
    inside = scores + outside
    top = inside.max(axis=1)
    total = top + np.log(np.exp(inside - top[:, None]).sum(axis=1))
    return float((total - (wanted * scores).sum(axis=1)).sum() + 0.5 * l2 * moved @ moved)


def _softmax(scores: Values) -> Values:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)
