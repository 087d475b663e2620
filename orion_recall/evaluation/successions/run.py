"""Recognises the successions of a file's memories in stores of their own, as a worker does."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from orion_recall.evaluation.fill import changes, fill
from orion_recall.evaluation.run_stores import index_and_graph, private_settings
from orion_recall.memory.succession.find import Found
from orion_recall.memory.succession.near import IndexNeighbours
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import open_sources
from orion_recall.settings import Settings
from orion_recall.values import Memory


async def recognise(
    memories: Sequence[Memory], settings: Settings, advanced: Callable[[int], None] = lambda done: None
) -> list[tuple[str, Found]]:
    """What each memory succeeds, with its conversation, likenesses as well.

    `advanced` is called with the number of memories that were compared.

    SourceError: the stores could not be opened.
    """
    with tempfile.TemporaryDirectory() as folder:
        private = private_settings(settings, Path(folder))
        sparse = await asyncio.to_thread(SparseEncoder, private.keyword_weights)
        async with open_sources(private, sparse=sparse) as opened:
            index, _ = index_and_graph(opened)
            steps = await asyncio.to_thread(changes, memories)
            await fill([index], steps)
            assert opened.index is not None
            neighbours = IndexNeighbours(index=opened.index, embedder=opened.embedder, sparse=sparse)
            found: list[tuple[str, Found]] = []
            for done, memory in enumerate(memories, start=1):
                found += [(memory.tenant, one) for one in await neighbours.successions(memory)]
                advanced(done)
            return found
