"""Keyword vectors: BM25 terms as Qdrant computes them, so that embedded index and server agree.

The language of a text is detected by script and function words (`small_words.json`): no model, a few microseconds.
It tells apart languages that the keyword index can stem; where it is not sure, it is English, as is every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Literal

from orion_recall.errors import ModelError, install_hint
from orion_recall.text.keyword_weights import SHIPPED, KeywordWeights
from orion_recall.text.normal import STOP_WORDS, indexed_text, storable, words

if TYPE_CHECKING:
    from qdrant_edge import Bm25, SparseVector

Language = Literal[
    "english", "german", "french", "spanish", "italian", "portuguese", "dutch", "danish", "norwegian", "swedish",
    "finnish", "romanian", "hungarian", "turkish", "russian", "greek", "arabic", "hebrew",
]  # fmt: skip

DEFAULT: Language = "english"

# Function words by language. Those that several languages share count a share for each.
_SMALL_WORDS: dict[Language, str] = json.loads(
    files("orion_recall.models").joinpath("small_words.json").read_text("utf-8")
)
_SCRIPTS: tuple[tuple[re.Pattern[str], Language], ...] = (
    (re.compile("[\u0400-\u04ff]{2}"), "russian"),
    (re.compile("[\u0370-\u03ff]{2}"), "greek"),
    (re.compile("[\u0600-\u06ff]{2}"), "arabic"),
    (re.compile("[\u0590-\u05ff]{2}"), "hebrew"),
)
_MOST_WORDS = 120
_LEAST_HITS = 2


_LISTS: dict[Language, frozenset[str]] = {
    language: frozenset(words.casefold().split()) for language, words in _SMALL_WORDS.items()
}
_LISTS[DEFAULT] |= STOP_WORDS
_LANGUAGES_OF: dict[str, tuple[Language, ...]] = {
    word: tuple(language for language, words in _LISTS.items() if word in words)
    for word in frozenset[str]().union(*_LISTS.values())
}


def language_of(words: Sequence[str]) -> Language:
    """The language of these folded words, judged by the first 120; English unless two words or more speak for
    another, and more of them than for English.
    """
    hits: dict[Language, int] = {}
    sure: dict[Language, float] = {}
    for word in islice(words, _MOST_WORDS):
        spoken = _LANGUAGES_OF.get(word) or (() if word.isascii() else _by_script(word))
        for language in spoken:
            hits[language] = hits.get(language, 0) + 1
            sure[language] = sure.get(language, 0.0) + 1.0 / len(spoken)
    if not hits:
        return DEFAULT
    best = max(hits, key=lambda language: (sure[language], hits[language]))
    sure_enough = hits[best] >= _LEAST_HITS and hits[best] > hits.get(DEFAULT, 0)
    return best if sure_enough else DEFAULT


def small_words(language: Language) -> frozenset[str]:
    """The function words of a language; none for one that is detected by its script."""
    return _LISTS.get(language, frozenset())


def _by_script(word: str) -> tuple[Language, ...]:
    return tuple(language for pattern, language in _SCRIPTS if pattern.search(word))


_MAX_QUERY_CHARS = 4_000
_MAX_DOCUMENT_CHARS = 110_000  # the longest text that is stored, with its title, speaker and tags
_JUDGED_CHARS = 1_000  # enough to tell a language
_MOST_ENCODERS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseTerms:
    """A sparse vector: hashed terms in ascending order, and the weight of each."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


class SparseEncoder:
    """Term weights of BM25 without idf, which the index applies (Qdrant's IDF modifier). Thread-safe.

    Words are folded (`indexed_text`), stemmed and cleared of stop words; digits and accents stay. Every text is
    stemmed as English, and one in another language as that, too: a query finds it whichever of the two was
    mistaken. Pairs of characters, of scripts without spaces, no stemmer changes. `weights` as in Robertson and
    Zaragoza, "The Probabilistic Relevance Framework", 2009, are the same for all of an index.
    """

    def __init__(self, weights: KeywordWeights = SHIPPED) -> None:
        self.weights = weights
        try:
            from qdrant_edge import Bm25, Bm25Config
        except ImportError as error:
            why = f"keyword vectors need the wheel qdrant-edge-py: {install_hint('worker')}"
            raise ModelError(why) from error

        @lru_cache(maxsize=_MOST_ENCODERS)
        def encoder(language: Language) -> Bm25:
            return Bm25(Bm25Config(k=weights.k1, b=weights.b, avg_len=weights.length, language=language))

        self._encoder = encoder
        try:
            self._english = encoder(DEFAULT)
        except ValueError as error:
            raise ModelError(f"keyword vectors cannot be made with these parameters: {error}") from error

    def encode_document(self, text: str) -> SparseTerms:
        """Saturated term frequencies of the first 110,000 characters; empty if nothing but stop words is there."""
        text = indexed_text(storable(text[:_MAX_DOCUMENT_CHARS]))
        terms = _terms(self._english.embed_document(text))
        if (language := language_of(words(text[:_JUDGED_CHARS]))) == DEFAULT:
            return terms
        return union((terms, _terms(self._encoder(language).embed_document(text))))

    def encode_query(self, text: str) -> SparseTerms:
        """Weight 1 for each term of the first 4,000 characters; empty if nothing but stop words is there."""
        text = indexed_text(storable(text[:_MAX_QUERY_CHARS]))
        said = words(text)
        if (language := language_of(said)) == DEFAULT:
            return _terms(self._english.embed_query(text))
        # The stop words of another language are rare where most is English, and would count the more for it.
        telling = " ".join(word for word in said if word not in small_words(language))
        return union([_terms(one.embed_query(telling)) for one in (self._english, self._encoder(language))])


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
