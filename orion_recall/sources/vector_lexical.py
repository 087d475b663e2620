"""The `vector` and `lexical` sources, two searches of one index, query expansion, and late interaction in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from orion_recall.errors import SourceError
from orion_recall.index.metadata import NO_TOKENS
from orion_recall.interfaces import MemoryIndex, TextIndex
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms, union
from orion_recall.models.token_space import TokenVectors
from orion_recall.sources.hits import whole
from orion_recall.text.normal import without_possessive, words
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Hit, Question, SearchRequest, SourceName

_MOST_NAMES = 8


_CONTEXT_WEIGHT = 0.5
_FOR_TIES = 32
"""Further hits that are asked for, so that mostly all hits of equal score at the limit are found."""


async def vector_of(question: Question, embedder: Embedder) -> list[float]:
    """The vector of the question, which is embedded once for all searches of a recall."""
    if (vector := question.vectors.get(id(embedder))) is None:
        vector = question.vectors[id(embedder)] = (await embedder.embed_query(question.dense_text)).tolist()
    return vector


class VectorSource:
    """Memories nearest in meaning: cosine of one embedding per query."""

    name: SourceName = "vector"

    def __init__(self, index: TextIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        vector = await vector_of(request.question, self._embedder)
        found = await self._index.search_dense(vector, request.scope, request.limit, request.min_score)
        return whole(_hits(found), self._index)


class LexicalSource:
    """Memories by words: BM25 of a memory's own words, and of its words with those of its neighbours."""

    name: SourceName = "lexical"

    def __init__(self, index: TextIndex, sparse: SparseEncoder) -> None:
        self._index, self._sparse = index, sparse

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        terms = self._sparse.encode_query(request.question.keyword_text)
        if request.with_aliases:
            terms = await self._with_other_names(terms, request)
        return whole(await self._found(terms, request), self._index)

    async def _with_other_names(self, terms: SparseTerms, request: SearchRequest) -> SparseTerms:
        """The terms, and those of the other names of each entity with a full name in the question."""
        text = request.question.keyword_text
        said = {without_possessive(word) for word in words(text)}
        further: list[SparseTerms] = []
        for names in await self._index.names_sharing_words(text, request.scope.tenant, _MOST_NAMES):
            if len(names) > 1 and any(said.issuperset(words(name)) for name in names):
                further += [self._sparse.encode_query(name) for name in names]
        return union([terms, *further])

    async def _found(self, terms: SparseTerms, request: SearchRequest) -> Sequence[Hit]:
        asked = request.limit + _FOR_TIES
        own, beside = await self._index.search_sparse(terms, request.scope, asked)
        scores = dict(_certain(own, asked))
        for key, score in _certain(beside, asked):
            scores[key] = scores.get(key, 0.0) + _CONTEXT_WEIGHT * score
        best = sorted([(-score, key) for key, score in scores.items()])[: request.limit]
        return _hits([(key, -negative) for negative, key in best])


def _hits(found: Iterable[tuple[int, float]]) -> list[Hit]:
    """Hits of a key and a score alone, in their order. To call `Hit` for each takes twice as long."""
    made = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return [made(Hit, (key, score, None, (), 0.0, None)) for key, score in found]


def _certain(hits: Sequence[tuple[int, float]], asked: int) -> Sequence[tuple[int, float]]:
    """The hits without the last ones of equal score where more of that score may have been left out.

    Which of them an engine finds is chance, and the same question would not always get the same answer. They stay
    where most hits have that score.
    """
    if len(hits) < asked:
        return hits
    last = hits[-1][1]
    above = bisect_left(hits, -last, key=lambda hit: -hit[1])
    return hits[:above] if above >= asked // 2 else hits


class LateInteraction:
    """Late interaction: the cosine of each question word and its nearest memory word, summed over the question."""

    def __init__(self, index: MemoryIndex, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder if isinstance(embedder, TokenVectors) else None

    async def why_off(self) -> str | None:
        """Why there is no late interaction here; None when there is. SourceError, ModelError as a search."""
        return await self._index.without_tokens()

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        """For the memories of these keys that the index holds, a number in [-1, 1]; of a text without words none.

        Of a memory in `passages` the passage of that number is compared, else the first one. The text is embedded
        once, here and in a search by meaning. SourceError, ModelError when it cannot be had.
        """
        if self._embedder is None:
            raise SourceError(NO_TOKENS)
        tokens = await self._embedder.query_tokens(text)
        return await self._index.max_sim(tokens, keys, passages) if len(tokens) else {}


class NearestPassages:
    """The passages of long memories that are nearest in meaning to a question."""

    def __init__(self, index: MemoryIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
        """Of the memories of these keys those whose nearest passage is not the first, with its number.

        SourceError, ModelError when they cannot be had.
        """
        return await self._index.nearest_passages(await vector_of(question, self._embedder), tenant, keys)
