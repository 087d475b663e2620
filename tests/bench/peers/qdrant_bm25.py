"""What many build first: Qdrant's local mode for vectors, rank_bm25 for words, and rank fusion of the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.bench.peers.peer import Place, Told, fused, library, model_folder, own_process, words

_DEPTH = 50
_COLLECTION = "memories"


class QdrantBm25:
    """Vectors in memory, in a client in this process."""

    def __init__(self) -> None:
        self._model = library("sentence_transformers").SentenceTransformer(str(model_folder()), device="cpu")
        self._client: Any = None
        self._keywords: Any = None
        self._ids: list[str] = []

    def fill(self, memories: Sequence[Told]) -> None:
        models = library("qdrant_client.models")
        numpy = library("numpy")
        self._ids = [one.id for one in memories]
        vectors = self._model.encode([one.text for one in memories], normalize_embeddings=True)
        client = library("qdrant_client").QdrantClient(":memory:")
        size = models.VectorParams(size=int(vectors.shape[1]), distance=models.Distance.COSINE)
        client.create_collection(_COLLECTION, vectors_config=size)
        client.upload_collection(_COLLECTION, vectors=numpy.asarray(vectors), ids=range(len(self._ids)))
        self._keywords = library("rank_bm25").BM25Okapi([words(one.text) for one in memories])
        self._client = client

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        vector = self._model.encode(question, normalize_embeddings=True)
        near = self._client.query_points(_COLLECTION, query=vector, limit=_DEPTH, with_payload=False).points
        scores: Any = self._keywords.get_scores(words(question))
        best: list[int] = [place for place in (-scores).argsort(kind="stable")[:_DEPTH] if scores[place] > 0]
        found: list[int] = [point.id for point in near]
        return fused(([self._ids[place] for place in found], [self._ids[place] for place in best]), k)

    def pids(self) -> list[int]:
        return own_process()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def open_peer(place: Place) -> QdrantBm25:
    """All is kept in this process."""
    return QdrantBm25()
