"""The vector and lexical arms over an index that says what it is told."""

from __future__ import annotations

from collections.abc import Sequence

from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.sources.vector_lexical import LexicalSource, VectorSource
from orion_recall.values import Scope
from tests.samples.source_samples import HashingEmbedder, key, request

Found = list[tuple[int, float]]


class ToldIndex:
    """An index with fixed answers that notes what it was asked."""

    kind = "index"
    damage: str | None = None
    stalled: str | None = None

    def __init__(
        self, *, dense: Found | None = None, text: Found | None = None, context: Found | None = None
    ) -> None:
        self.dense, self.by_form = dense or [], {"text": text or [], "context": context or []}
        self.asked: list[tuple[object, ...]] = []

    async def search_dense(self, vector: Sequence[float], scope: Scope, limit: int, min_score: float) -> Found:
        self.asked.append((list(vector), scope, limit, min_score))
        return self.dense

    async def search_sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[Found]:
        self.asked.append((terms, scope, limit))
        return [self.by_form["text"], self.by_form["context"]]


async def test_the_vector_arm_embeds_the_dense_text_and_passes_scope_limit_and_threshold():
    embedder, scope = HashingEmbedder(), Scope(tenant="acme", session_id="s")
    index = ToldIndex(dense=[(key("a"), 0.9), (key("b"), 0.4)])
    hits = await VectorSource(index, embedder).search(request("the crane", scope=scope, limit=7, min_score=0.3))
    assert [(hit.key, hit.score) for hit in hits] == [(key("a"), 0.9), (key("b"), 0.4)]
    assert index.asked == [((await embedder.embed_query("the crane")).tolist(), scope, 7, 0.3)]


async def test_the_lexical_arm_adds_half_of_what_the_neighbours_say(sparse: SparseEncoder):
    index = ToldIndex(text=[(key("a"), 4.0), (key("b"), 3.0)], context=[(key("b"), 4.0), (key("c"), 2.0)])
    hits = await LexicalSource(index, sparse).search(request("the crane"))
    assert [(hit.key, hit.score) for hit in hits] == [(key("b"), 5.0), (key("a"), 4.0), (key("c"), 1.0)]
    terms = sparse.encode_query("the crane")
    assert [terms] == [asked[0] for asked in index.asked]


async def test_equal_scores_are_in_the_order_of_keys_and_the_limit_holds(sparse: SparseEncoder):
    found = [(key(name), 1.0) for name in "dcba"]
    hits = await LexicalSource(ToldIndex(text=found), sparse).search(request("crane", limit=3))
    assert [hit.key for hit in hits] == sorted(key(name) for name in "abcd")[:3]
