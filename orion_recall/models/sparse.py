"""Keyword vectors: BM25 terms as Qdrant computes them, so that embedded index and server agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from orion_recall.errors import ModelError, install_hint
from orion_recall.models.language import DEFAULT, Language, language_of, small_words
from orion_recall.text.keyword_weights import LENGTH, SHIPPED, KeywordWeights
from orion_recall.text.normal import storable, words

if TYPE_CHECKING:
    from qdrant_edge import Bm25, SparseVector

_MAX_QUERY_CHARS = 4_000
_MAX_DOCUMENT_CHARS = 32_000
_JUDGED_CHARS = 1_000  # enough to tell a language
_MOST_ENCODERS = 512
_COUNTING_K = 1_000.0  # so high that a weight tells how often a term occurs


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseTerms:
    """A sparse vector: hashed terms in ascending order, and the weight of each."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


class SparseEncoder:
    """Term weights of BM25 without idf, which the index applies (Qdrant's IDF modifier). Thread-safe.

    Words are lower-cased, stemmed and cleared of stop words; digits and accents stay. Every text is stemmed as
    English, and one that is written in another language as that, too: so a query finds what was stemmed as it is,
    whichever of the two was mistaken. The `weights` as in Robertson and Zaragoza, "The Probabilistic Relevance
    Framework", 2009. Documents under different weights must not share an index.
    """

    def __init__(self, weights: KeywordWeights = SHIPPED) -> None:
        self.weights = weights
        try:
            from qdrant_edge import Bm25, Bm25Config
        except ImportError as error:
            why = f"keyword vectors need the wheel qdrant-edge-py: {install_hint('worker')}"
            raise ModelError(why) from error

        @lru_cache(maxsize=_MOST_ENCODERS)
        def encoder(language: Language, mean: float) -> Bm25:
            return Bm25(Bm25Config(k=weights.k1, b=weights.b, avg_len=mean, language=language))

        self._encoder = encoder
        self._fixed = LENGTH if weights.length is None else weights.length
        self._counting = Bm25(Bm25Config(k=_COUNTING_K, b=0.0, avg_len=1.0, language=DEFAULT))
        try:
            self._english = encoder(DEFAULT, self._fixed)
        except ValueError as error:
            raise ModelError(f"keyword vectors cannot be made with these parameters: {error}") from error

    def encode_document(self, text: str, mean: float | None = None) -> SparseTerms:
        """Saturated term frequencies of the first 32,000 characters; empty if nothing but stop words is there.

        `mean` is the mean length of the documents that it is compared with, None the fixed one.
        """
        text, mean = storable(text[:_MAX_DOCUMENT_CHARS]), self._fixed if mean is None else mean
        terms = _terms(self._encoder(DEFAULT, mean).embed_document(text))
        if (language := language_of(words(text[:_JUDGED_CHARS]))) == DEFAULT:
            return terms
        return union((terms, _terms(self._encoder(language, mean).embed_document(text))))

    def count_terms(self, text: str) -> int:
        """The length of a document as BM25 counts it: terms with repetitions, without stop words."""
        found = self._counting.embed_document(storable(text[:_MAX_DOCUMENT_CHARS]))
        return sum(round(_COUNTING_K * weight / (_COUNTING_K + 1 - weight)) for weight in found.values)

    def encode_query(self, text: str) -> SparseTerms:
        """Weight 1 for each term of the first 4,000 characters; empty if nothing but stop words is there."""
        text = storable(text[:_MAX_QUERY_CHARS])
        said = words(text)
        if (language := language_of(said)) == DEFAULT:
            return _terms(self._english.embed_query(text))
        # The stop words of another language are rare where most is English, and would count the more for it.
        telling = " ".join(word for word in said if word not in small_words(language))
        return union(
            [_terms(one.embed_query(telling)) for one in (self._english, self._encoder(language, self._fixed))]
        )


def union(vectors: Sequence[SparseTerms]) -> SparseTerms:
    """Every term of the vectors, with its greatest weight."""
    if len(vectors) == 1:
        return vectors[0]
    weights: dict[int, float] = {}
    for one in vectors:
        for index, value in zip(one.indices, one.values, strict=True):
            weights[index] = max(value, weights.get(index, value))
    return SparseTerms(indices=tuple(sorted(weights)), values=tuple(weights[index] for index in sorted(weights)))


def _terms(vector: SparseVector) -> SparseTerms:
    return SparseTerms(indices=tuple(vector.indices), values=tuple(vector.values))
