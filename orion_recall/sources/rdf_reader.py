"""The embedded graph, read from outside the process that writes it: as it was when it was opened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pyoxigraph

from orion_recall.errors import SourceError
from orion_recall.graph.questions import Row
from orion_recall.graph.rows import rows_of
from orion_recall.graph.updates import CARD_QUERY, position_in
from orion_recall.sources.engine_threads import translated


class RdfReader:
    """A graph's folder, open for queries alone. A worker may go on writing to it: what it writes is not seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store: pyoxigraph.Store | None = None

    async def open(self) -> None:
        """SourceError when there is no graph, or none of this version's format."""
        try:
            self._store = await asyncio.to_thread(pyoxigraph.Store.read_only, str(self.folder / "store"))
        except OSError as error:
            raise SourceError(
                f"there is no graph in {self.folder}: start `orion-recall up`, or name its data folder with --data"
            ) from error
        if position_in(await self.select(CARD_QUERY)) is None:
            await self.close()
            raise SourceError(f"the graph in {self.folder} is not built yet: a worker that starts on it builds it")

    async def close(self) -> None:
        """Let the folder go."""
        self._store = None

    async def select(self, query: str) -> Sequence[Row]:
        """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
        store = self._store
        if store is None:
            raise SourceError(f"the graph in {self.folder} is not open")
        return await asyncio.to_thread(lambda: translated("the graph", lambda: rows_of(store, query)))
