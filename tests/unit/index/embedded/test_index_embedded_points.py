"""Points as the embedded engine takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from orion_recall.index.embedded.points import edge_point
from orion_recall.index.points import TOKENS, HalfTokens, IndexPoint


def written(tokens: HalfTokens | list[list[float]]) -> Any:
    vectors: Any = edge_point(IndexPoint(key=1, dense=[0.5], sparse={}, payload={}, tokens=tokens)).vector
    return vectors[TOKENS]


def test_vectors_of_tokens_are_the_same_however_they_are_held() -> None:
    made = np.random.default_rng(1).normal(size=(7, 96)).astype(np.float16)

    assert written(made) == written(made.tolist()) == made.tolist()
    assert written(made[:, ::2]) == made[:, ::2].tolist()
    assert written(made[:1]) == made[:1].tolist()
