"""The constants of BM25 in a keyword index: k1, b, and the mean length of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

K1, B, LENGTH = 1.5, 0.75, 32.0
"""Those of an index that no setting describes, `LENGTH` in terms."""
CORPUS = "corpus"

DocumentField = Literal["text", "context"]


class MeanLengths(NamedTuple):
    """The mean numbers of terms of a tenant's documents: `text` of own words, `context` with the neighbours'."""

    text: float
    context: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordWeights:
    """Term saturation k1, length normalisation b, and mean length in terms.

    `length` None: each tenant has its own, measured at `measured` ("" where that was never done), and one without
    has `LENGTH`. Documents under different weights must not share an index.
    """

    k1: float = K1
    b: float = B
    length: float | None = LENGTH
    of_tenants: Mapping[str, MeanLengths] = field(default_factory=dict[str, MeanLengths])
    measured: str = ""

    def mean_of(self, tenant: str, document: DocumentField) -> float:
        """The mean length that a document of the tenant is compared with."""
        if self.length is not None:
            return self.length
        own = self.of_tenants.get(tenant)
        return LENGTH if own is None else max(getattr(own, document), 1.0)

    @property
    def name(self) -> str:
        """The constants as in the setting, with the time of the measurement; "" for those without a setting."""
        if (self.k1, self.b, self.length) == (K1, B, LENGTH):
            return ""
        length = CORPUS if self.length is None else f"{self.length:g}"
        as_of = f" as of {self.measured}" if self.measured and self.length is None else ""
        return f"k1={self.k1:g},b={self.b:g},length={length}{as_of}"


SHIPPED = KeywordWeights()
SHIPPED_NAME = f"k1={K1:g},b={B:g},length={LENGTH:g}"


def keyword_weights_of(value: object) -> object:
    """The weights of `k1=…,b=…,length=…`, each of which may be left out; anything but a text as it is.

    ValueError for a key that there is not, and for a value outside of its bounds.
    """
    if not isinstance(value, str):
        return value
    found: dict[str, float | None] = {}
    for part in filter(None, (each.strip() for each in value.split(","))):
        key, _, number = (each.strip() for each in part.partition("="))
        if key not in _BOUNDS:
            raise ValueError(f"{key!r} is none of k1, b, length: write {SHIPPED_NAME}, or length={CORPUS}")
        found[key] = None if (key, number) == ("length", CORPUS) else _number(key, number)
    k1, b, length = (found.get(key, default) for key, default in (("k1", K1), ("b", B), ("length", LENGTH)))
    assert k1 is not None
    assert b is not None
    return KeywordWeights(k1=k1, b=b, length=length)


_BOUNDS = {"k1": (0.0, 10.0), "b": (0.0, 1.0), "length": (1.0, 100_000.0)}


def _number(key: str, text: str) -> float:
    least, most = _BOUNDS[key]
    try:
        number = float(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(f"{key}: {text[:40]!r} is no number from {least:g} to {most:g}")
    return number
