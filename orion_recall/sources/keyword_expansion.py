"""Query expansion of the keyword source: other names of entities in the question, and words of the first hits.

The latter is pseudo-relevance feedback, RM3 (Abdul-Jaleel et al., "UMass at TREC 2004"): the terms of the best
documents, each document counting by its score, join the query's own with a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orion_recall.index.text_forms import keyword_text
from orion_recall.interfaces import NamesAndTexts
from orion_recall.models.sparse import SparseEncoder, SparseTerms, union
from orion_recall.text.normal import without_possessive, words
from orion_recall.values import MoreWordsWanted, Question, Scope

_MOST_NAMES = 8


class MoreWords:
    """Query expansion from one index."""

    def __init__(self, index: NamesAndTexts, sparse: SparseEncoder) -> None:
        self._index, self._sparse = index, sparse

    async def with_other_names(self, terms: SparseTerms, question: Question, scope: Scope) -> SparseTerms:
        """The terms, and those of the other names of each entity with a full name in the question."""
        said = {without_possessive(word) for word in words(question.keyword_text)}
        further: list[SparseTerms] = []
        for names in await self._index.names_sharing_words(question.keyword_text, scope.tenant, _MOST_NAMES):
            if len(names) > 1 and any(said.issuperset(words(name)) for name in names):
                further += [self._sparse.encode_query(name) for name in names]
        return union([terms, *further])

    async def with_feedback(
        self, terms: SparseTerms, found: Sequence[tuple[int, float]], wanted: MoreWordsWanted
    ) -> SparseTerms:
        """The terms, and the likeliest ones of the first documents found: (key, score), best first."""
        best = dict(found[: wanted.feedback_documents])
        memories = await self._index.fetch(list(best))
        documents = [
            (self._sparse.encode_document(keyword_text(memory)), best[key]) for key, memory in memories.items()
        ]
        return interpolated(terms, relevance(documents, wanted.feedback_terms), wanted.feedback_weight)


def relevance(documents: Sequence[tuple[SparseTerms, float]], count: int) -> Mapping[int, float]:
    """The `count` likeliest terms of the documents' relevance model, by index; their shares add up to 1."""
    model: dict[int, float] = {}
    for terms, score in documents:
        length = sum(terms.values)
        for index, value in zip(terms.indices, terms.values, strict=True):
            model[index] = model.get(index, 0.0) + score * value / length
    likeliest = sorted(model.items(), key=lambda one: (-one[1], one[0]))[:count]
    total = sum(share for _, share in likeliest)
    return {index: share / total for index, share in likeliest} if total > 0 else {}


def interpolated(terms: SparseTerms, model: Mapping[int, float], weight: float) -> SparseTerms:
    """The terms and the model's, which together have `weight` times the weight of the terms."""
    weights = dict(zip(terms.indices, terms.values, strict=True))
    total = sum(terms.values) * weight
    for index, share in model.items():
        weights[index] = weights.get(index, 0.0) + total * share
    return SparseTerms(indices=tuple(sorted(weights)), values=tuple(weights[index] for index in sorted(weights)))
