"""LangChain's EnsembleRetriever over BM25 and its in-memory vector store, with equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.bench.peers.peer import Place, Told, library, model_folder, own_process, words

_DEPTH = 50
"""How many each of the two gives to the fusion: with ten, what only one of them ranks below ten is lost."""


class LangChainEnsemble:
    """`fill` builds both retrievers anew: BM25 there has no way to add."""

    def __init__(self) -> None:
        embeddings = library("langchain_huggingface").HuggingFaceEmbeddings
        self._embeddings = embeddings(
            model_name=str(model_folder()),
            model_kwargs={"device": "cpu"},
            encode_kwargs={"normalize_embeddings": True},
        )
        self._retriever: Any = None

    def fill(self, memories: Sequence[Told]) -> None:
        document = library("langchain_core.documents").Document
        documents = [document(page_content=one.text, metadata={"id": one.id}) for one in memories]
        keywords = library("langchain_community.retrievers").BM25Retriever.from_documents(
            documents, preprocess_func=words, k=_DEPTH
        )
        store = library("langchain_core.vectorstores").InMemoryVectorStore.from_documents(
            documents, self._embeddings
        )
        self._retriever = library("langchain_classic.retrievers").EnsembleRetriever(
            retrievers=[keywords, store.as_retriever(search_kwargs={"k": _DEPTH})], weights=[0.5, 0.5], id_key="id"
        )

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        return [found.metadata["id"] for found in self._retriever.invoke(question)[:k]]

    def pids(self) -> list[int]:
        return own_process()

    def close(self) -> None:
        self._retriever = None


def open_peer(place: Place) -> LangChainEnsemble:
    """All is kept in this process."""
    return LangChainEnsemble()
