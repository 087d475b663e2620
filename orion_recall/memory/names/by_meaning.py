"""Pairs of names that are near in meaning, by the vectors of the names alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from orion_recall.models.embedder import Embedder

MOST_NAMES = 20_000
"""Names that are compared; of more the first by alphabet. Each of them is compared with every other."""
_NEAREST, _BLOCK = 4, 512


async def pairs_by_meaning(
    labels: Sequence[str], embedder: Embedder, min_cosine: float
) -> dict[tuple[str, str], float]:
    """The pairs of different names with such a cosine at least, of each name its four nearest.

    Names have their case folded; the lesser comes first. ModelError when they cannot be embedded.
    """
    by_name = {label.casefold(): label for label in sorted(labels, reverse=True)}
    names = sorted(by_name)[:MOST_NAMES]
    if len(names) < 2:
        return {}
    vectors = await embedder.embed_documents([by_name[name] for name in names])
    return await asyncio.to_thread(_near, names, vectors, min_cosine)


def _near(
    names: Sequence[str], vectors: npt.NDArray[np.float32], min_cosine: float
) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for start in range(0, len(names), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        for row in range(cosines.shape[0]):
            place = start + row
            cosines[row, place] = -1.0
            nearest: list[int] = np.argsort(-cosines[row], kind="stable")[:_NEAREST].tolist()
            for other in nearest:
                cosine = float(cosines[row, other])
                if cosine >= min_cosine:
                    pair = min(names[place], names[other]), max(names[place], names[other])
                    found[pair] = min(1.0, cosine)
    return found
