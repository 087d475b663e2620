"""Entities with names similar to a text, for the operator SIMILAR.

The index finds them where it can be queried. Where it cannot (a worker on this machine holds it), a bounded number
of names is read from the graph and compared by words and letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from orion_recall.errors import SourceError
from orion_recall.graph.relation_words import stem
from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import entity_iri
from orion_recall.interfaces import EntityFinder, EntityLikeness
from orion_recall.text.normal import content_words, words

MOST_COMPARED = 20_000
_LEAST_LIKE = 0.34
_NEAR_BEST = 0.4
_LEAST_COSINE = 0.5


class SimilarEntities(Protocol):
    """Finds entities by the similarity of their names: IRIs, best first."""

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]: ...


class IndexedEntities:
    """Similar entities from the index: by the words of their names, then by the vectors of their names."""

    def __init__(self, finder: EntityFinder, meaning: EntityLikeness) -> None:
        self._finder, self._meaning = finder, meaning

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Entities with two fifths of the best score by words or more, then those with a cosine of 0.5 or more."""
        found = await self._finder.find_entities(text, tenant, limit)
        best = max((score for _, score in found), default=0.0)
        by_words = [label for label, score in found if score >= best * _NEAR_BEST]
        try:
            meant = await self._meaning.entities_like(text, tenant, limit)
        except SourceError:
            if not by_words:
                raise  # the next finder may answer
            meant = ()
        by_meaning = [label for label, cosine in meant if cosine >= _LEAST_COSINE]
        return list(dict.fromkeys(str(entity_iri(label)) for label in (*by_words, *by_meaning)))[:limit]


class GraphEntities:
    """Similar entities from the graph: names of the first 20,000 entities in the engine's order are compared."""

    def __init__(self, store: Queryable) -> None:
        self._store = store

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Entities that share a stem with the text, or many of its letters."""
        labels = await TenantGraph(self._store, tenant).all_labels(MOST_COMPARED)
        scored = [(likeness(text, label), iri) for iri, label in labels.items()]
        return [iri for score, iri in sorted(scored, key=lambda one: (-one[0], one[1])) if score >= _LEAST_LIKE][
            :limit
        ]


class FirstAvailable:
    """Uses the first finder that works; `told` is called with the error of each that does not."""

    def __init__(self, finders: Sequence[SimilarEntities], *, told: Callable[[SourceError], None]) -> None:
        assert finders
        self._finders, self._told = finders, told

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """As the first finder that works; SourceError when the last one fails, too."""
        *others, last = self._finders
        for finder in others:
            try:
                return await finder.similar_entities(text, tenant, limit)
            except SourceError as error:
                self._told(error)
        return await last.similar_entities(text, tenant, limit)


def likeness(one: str, other: str) -> float:
    """The similarity of two names in [0, 1]: the greater of the overlap of stems and that of letter trigrams."""
    stems, others = _stems(one), _stems(other)
    shared = len(stems & others)
    by_words = shared / min(len(stems), len(others)) if shared else 0.0
    letters, other_letters = _letters(one), _letters(other)
    both = len(letters & other_letters)
    by_letters = 2 * both / (len(letters) + len(other_letters)) if both else 0.0
    return max(0.99 * by_words if stems != others else by_words, by_letters)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in (content_words(text) or words(text)))


def _letters(text: str) -> frozenset[str]:
    padded = f"  {' '.join(words(text))[:200]} "
    return frozenset(padded[place : place + 3] for place in range(len(padded) - 2))
