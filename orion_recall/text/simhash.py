"""SimHash: signatures of texts, by which near-duplicates are found. Needs numpy."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import pairwise

import numpy as np

from orion_recall.text.normal import words


def simhash(text: str) -> int:
    """A signed 64-bit signature whose bits differ little between texts that share most of their words.

    Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.
    """
    folded = words(text)
    features = {*folded, *(f"{one} {other}" for one, other in pairwise(folded))}
    if not features:
        return 0
    digests = b"".join(map(_digest, features))
    bits = np.unpackbits(np.frombuffer(digests, dtype=np.uint8).reshape(-1, 8), axis=1)
    majority = bits.sum(axis=0, dtype=np.int64) * 2 > len(features)
    return int.from_bytes(np.packbits(majority).tobytes(), "big", signed=True)


@lru_cache(maxsize=8192)
def _digest(feature: str) -> bytes:
    """Kept: half of the features are words, and most texts have most words in common."""
    return hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
