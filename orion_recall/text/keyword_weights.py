"""The constants of BM25 in a keyword index: k1, b, and the mean length of documents."""

from __future__ import annotations

import math
from dataclasses import dataclass

K1, B, LENGTH = 1.5, 0.75, 32.0
"""Those of an index that no setting describes, `LENGTH` in terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordWeights:
    """Term saturation k1, length normalisation b, mean length. Documents under others must not share an index."""

    k1: float = K1
    b: float = B
    length: float = LENGTH

    @property
    def name(self) -> str:
        """The constants as in the setting; "" for those without a setting."""
        if (self.k1, self.b, self.length) == (K1, B, LENGTH):
            return ""
        return f"k1={self.k1:g},b={self.b:g},length={self.length:g}"


SHIPPED = KeywordWeights()
SHIPPED_NAME = f"k1={K1:g},b={B:g},length={LENGTH:g}"
_BOUNDS = {"k1": (0.0, 10.0), "b": (0.0, 1.0), "length": (1.0, 100_000.0)}


def keyword_weights_of(value: object) -> object:
    """The weights of `k1=…,b=…,length=…`, each of which may be left out; anything but a text as it is.

    ValueError for a key that there is not, and for a value outside of its bounds.
    """
    if not isinstance(value, str):
        return value
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        key, _, number = map(str.strip, part.partition("="))
        if key not in _BOUNDS:
            raise ValueError(f"{key!r} is none of k1, b, length: write {SHIPPED_NAME}")
        if (key, number) == ("length", "corpus"):
            raise ValueError("length: a tenant's own mean is not measured any more: write a number of terms")
        least, most = _BOUNDS[key]
        try:
            found[key] = float(number)
        except ValueError:
            found[key] = math.nan
        if not least <= found[key] <= most:
            raise ValueError(f"{key}: {number[:40]!r} is no number from {least:g} to {most:g}")
    return KeywordWeights(**found)
