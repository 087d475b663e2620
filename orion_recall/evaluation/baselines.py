"""Baselines that recall must beat: plain searches over the same memories.

like    count of the question's words that occur in the text: SQL's LIKE '%word%'
bm25    keywords of a memory with its date, speaker and title
dense   nearest by the embedding of the question as it is asked
rrf     the last two, fused by rank (k = 60)
bm25_decay  bm25 times exp(-lambda * age), lambda 0.01 an hour, never below 0.05
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from orion_recall.errors import SourceError
from orion_recall.evaluation.snapshots import Contents
from orion_recall.interfaces import MemoryIndex, Source
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.profile import Profile
from orion_recall.profile.sections import Fusion, FusionWeights, RankingWeights
from orion_recall.serving.backends import Opened
from orion_recall.text.normal import content_words, memory_key
from orion_recall.values import Hit, SearchRequest, SourceName

BaselineName = Literal["like", "bm25", "dense", "rrf", "bm25_decay"]
DECAY_LAMBDA = 0.01
BASELINES: tuple[BaselineName, ...] = get_args(BaselineName)


class LikeSource:
    """Memories by how many of the question's words their text contains, also inside words."""

    name: SourceName = "lexical"

    def __init__(self, texts: Mapping[str, Sequence[tuple[int, str]]]) -> None:
        """`texts` are the keys and folded texts of a tenant's memories."""
        self._texts = texts

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Most words first; of equals the oldest in the file."""
        wanted = frozenset(content_words(request.question.text))
        counted = [(sum(word in text for word in wanted), key) for key, text in self._texts[request.scope.tenant]]
        found = sorted([(count, key) for count, key in counted if count], key=lambda one: -one[0])
        return [Hit(key, float(count)) for count, key in found[: request.limit]]


class OwnWordsSource:
    """BM25 of a memory's own words for the words of the question."""

    name: SourceName = "lexical"

    def __init__(self, index: MemoryIndex, sparse: SparseEncoder) -> None:
        self._index, self._sparse = index, sparse

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Best first. The context of neighbouring turns is not searched."""
        terms = self._sparse.encode_query(request.question.text)
        own, _ = await self._index.search_sparse(terms, request.scope, request.limit)
        return [Hit(key, score) for key, score in own]


class WholeQuestionSource:
    """Memories nearest to the embedding of the whole question, names included."""

    name: SourceName = "vector"

    def __init__(self, index: MemoryIndex, embedder: Embedder) -> None:
        self._index, self._embedder = index, embedder

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        """Best first."""
        vector = await self._embedder.embed_query(request.question.text)
        found = await self._index.search_dense(vector.tolist(), request.scope, request.limit, 0.0)
        return [Hit(key, score) for key, score in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One of the baselines: its profile, and the sources that it searches."""

    name: BaselineName

    @property
    def profile(self) -> Profile:
        """The order of the fused lists and nothing else, in a bundle as large as that of `reflect.v1`."""
        dense, words = self._searches
        return Profile(
            profile=f"baseline.{self.name}",
            vector_top_k=100 if dense else 0,
            lexical_top_k=100 if words else 0,
            rdf_top_k=0,
            max_per_source=12,
            max_total_items=12,
            render_budget_tokens=256,
            enable_query_expansion=False,
            rank_pool=100,
            time_decay_lambda_per_hour=DECAY_LAMBDA,
            fusion=Fusion(
                method="bm25_decay" if self.name == "bm25_decay" else "rrf",
                k=60,
                weights=FusionWeights(vector=1.0, lexical=1.0),
            ),
            ranking=RankingWeights(fusion=1.0, similarity=0.0, recency=0.0),
        )

    @property
    def _searches(self) -> tuple[bool, bool]:
        """Whether vectors are searched, and whether words are."""
        return self.name in ("dense", "rrf"), self.name != "dense"

    async def sources(self, opened: Opened, contents: Contents) -> Mapping[SourceName, Source]:
        """The sources over these stores. SourceError when there is no index."""
        index = opened.index
        if index is None:
            raise SourceError("; ".join(opened.broken.values()))
        dense, words = self._searches
        if self.name == "like":
            return {"lexical": LikeSource(await _texts(index, contents))}
        sources: dict[SourceName, Source] = {}
        if words:
            sources["lexical"] = OwnWordsSource(index, SparseEncoder())
        if dense:
            sources["vector"] = WholeQuestionSource(index, opened.embedder)
        return sources


async def _texts(index: MemoryIndex, contents: Contents) -> Mapping[str, Sequence[tuple[int, str]]]:
    """Every conversation's texts in the order of its file."""
    texts: dict[str, list[tuple[int, str]]] = {}
    for conversation, ids in contents.ids.items():
        keys = [memory_key(conversation, name) for name in ids]
        read = await index.fetch(keys)
        texts[conversation] = [(key, read[key].text.casefold()) for key in keys if key in read]
    return texts
