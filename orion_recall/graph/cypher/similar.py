"""Entities whose names are like a text: what SIMILAR asks for.

The index finds them where it can be asked. Where it cannot (a worker of this machine holds it), the names are read
out of the graph, a bounded number of them, and compared by their words and letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from orion_recall.errors import SourceError
from orion_recall.graph.relation_words import stem
from orion_recall.graph.tenant_graph import Queryable, TenantGraph
from orion_recall.graph.vocabulary import entity_iri
from orion_recall.text.normal import content_words, words

MOST_COMPARED = 20_000
_LEAST_LIKE = 0.34
_NEAR_BEST = 0.4
_LEAST_COSINE = 0.5


class SimilarEntities(Protocol):
    """Finds entities by likeness of their names: IRIs, best first."""

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]: ...


class FindsEntities(Protocol):
    """What an index offers: every `sources.source.EntityFinder` is one."""

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]: ...


class ComparesEntities(Protocol):
    """Compares by meaning: every `sources.source.EntityLikeness` is one."""

    async def entities_like(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]: ...


class IndexedEntities:
    """Likeness by the index's entities: by the words of their names, then by what these mean."""

    def __init__(self, finder: FindsEntities, meaning: ComparesEntities) -> None:
        self._finder, self._meaning = finder, meaning

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """Entities that score at least two fifths of what the best does by words, then those near in meaning."""
        found = await self._finder.find_entities(text, tenant, limit)
        best = max((score for _, score in found), default=0.0)
        by_words = [label for label, score in found if score >= best * _NEAR_BEST]
        try:
            meant = await self._meaning.entities_like(text, tenant, limit)
        except SourceError:
            if not by_words:
                raise  # the next one may tell
            meant = ()
        by_meaning = [label for label, cosine in meant if cosine >= _LEAST_COSINE]
        return list(dict.fromkeys(str(entity_iri(label)) for label in (*by_words, *by_meaning)))[:limit]


class GraphEntities:
    """Likeness by the names in the graph, of the first 20,000 entities that the engine comes to."""

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
    """The first of several that can tell; `told` hears why one could not."""

    def __init__(self, finders: Sequence[SimilarEntities], *, told: Callable[[SourceError], None]) -> None:
        assert finders
        self._finders, self._told = finders, told

    async def similar_entities(self, text: str, tenant: str, limit: int) -> Sequence[str]:
        """SourceError when not even the last can tell."""
        *others, last = self._finders
        for finder in others:
            try:
                return await finder.similar_entities(text, tenant, limit)
            except SourceError as error:
                self._told(error)
        return await last.similar_entities(text, tenant, limit)


def likeness(one: str, other: str) -> float:
    """How alike two names are, in [0, 1]: by stems of words, or by three letters in a row; the better of both."""
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
