"""Personalised PageRank over arrays of edges (Haveliwala, "Topic-sensitive PageRank", 2002)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def personalised_pagerank(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    damping: float,
    rounds: int,
) -> NDArray[np.float64]:
    """The share of time that a random walk spends at each node: one number a node, 1 in all.

    The three arrays are the edges, gone along in both directions and chosen by weight; `bias` has a number of 0 or
    more for each node, not all 0. With the probability `damping` the walk goes along an edge, else it starts again
    at a node chosen by bias; at a node without edges it always does. Power iteration, so many `rounds`.
    """
    start, end = np.concatenate((source, target)), np.concatenate((target, source))
    both = np.concatenate((weight, weight))
    leaving = np.bincount(start, weights=both, minlength=len(bias))[start]
    share = np.divide(both, leaving, out=np.zeros_like(both), where=leaving > 0)
    bias = bias / bias.sum()
    rank = bias
    for _ in range(rounds):
        moved = damping * np.bincount(end, weights=rank[start] * share, minlength=len(bias))
        rank = moved + (1.0 - moved.sum()) * bias
    return rank
