"""mem0's Memory with its default store (Qdrant, local, on disk); with infer=False it keeps memories as told.

As pip installs it: keyword search wants fastembed and entities want spaCy, so this is the vector search alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tests.bench.peers.peer import Place, Told, library, model_folder, own_process

_USER = "bench"
_DIMENSIONS = 384


class Mem0Memory:
    """`fill` opens a store of its own: local Qdrant is locked by one client."""

    def __init__(self, place: Place) -> None:
        self._folder = place.folder
        self._stores = 0
        self._memory: Any = None
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(place.folder / "mem0")}
        self._library = library("mem0")

    def fill(self, memories: Sequence[Told]) -> None:
        folder = self._folder / f"store-{self._stores}"
        self._stores += 1
        self._memory = self._library.Memory.from_config(
            {
                # The language model is never asked: mem0 wants a key all the same.
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "embedder": {
                    "provider": "huggingface",
                    "config": {"model": str(model_folder()), "model_kwargs": {"device": "cpu"}},
                },
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "collection_name": "memories",
                        "path": str(folder / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": _DIMENSIONS,
                    },
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        for one in memories:
            self._memory.add(one.text, user_id=_USER, metadata={"told": one.id, "at": one.at}, infer=False)

    def ask(self, question: str, k: int, at: str | None) -> list[str]:
        found = self._memory.search(question, top_k=k, filters={"user_id": _USER})["results"]
        return [one["metadata"]["told"] for one in found]

    def pids(self) -> list[int]:
        return own_process()

    def close(self) -> None:
        self._memory = None


def open_peer(place: Place) -> Mem0Memory:
    """Its stores are in the folder."""
    return Mem0Memory(place)
