"""The graph on a SPARQL 1.1 server: one copy that all workers share.

The server may be away, at the start too: then a search is a SourceError, and one after its return finds it. Nobody
but the server knows how far the graph has come. So the position is read there after every write, and after every
failure: a server that came back empty or from a backup is filled from where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from orion_recall.errors import SourceError
from orion_recall.graph.updates import POSITION_QUERY, updates
from orion_recall.sources.graph_memories import Row, memories, memories_query
from orion_recall.sources.sparql_client import SparqlClient
from orion_recall.values import Change, MemoryView

log = logging.getLogger("orion_recall.sources")

_FIRST_LOOK_S = 2.0


class SparqlGraph:
    """The graph's client, and where the graph was when it was last looked at."""

    kind = "graph"
    shared = True

    def __init__(self, client: SparqlClient) -> None:
        self._client = client
        self._position = 0
        self._uncertain = True

    @property
    def copy(self) -> str | None:
        """The server's address, without secrets."""
        return self._client.address

    @property
    def position(self) -> int:
        """How far the graph has come in the outbox, as last seen; 0 while the server has never answered."""
        return self._position

    async def open(self) -> None:
        """See where the graph is. A server that is away or wrong is said in the log, and asked again later."""
        try:
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self._look()
        except (SourceError, TimeoutError) as error:
            why = (
                str(error)
                or f"the SPARQL server at {self._client.address} gave no answer within {_FIRST_LOOK_S:g} s"
            )
            log.warning("the graph is not there yet: %s", why)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def apply(self, changes: Sequence[Change]) -> None:
        """Put changes into the graph, in order, and move the position. Again is harmless.

        When the graph is not where it was last seen, nothing is written and the position becomes where it is.
        """
        if not changes:
            return
        before = self._position
        try:
            requests = updates(changes, before)
            # Writing a few hundred memories as text takes long enough to be felt: in a thread.
            while (request := await asyncio.to_thread(next, requests, None)) is not None:
                await self._client.update(request)
            await self._look()
        except BaseException:
            self._uncertain = True
            raise
        if self._position == before != changes[-1].position:
            raise SourceError(
                f"the SPARQL server at {self._client.address} does not give back what was written: queries must "
                "see the default graph that updates write to, and ORION_SPARQL_UPDATE_URL must be of the same data"
            )

    async def select(self, query: str) -> list[Row]:
        """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
        try:
            rows = await self._client.select(query)
        except BaseException:
            self._uncertain = True
            raise
        if self._uncertain:
            await self._look()
        return rows

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key, for when the index cannot give them. Keys that are not there are left out."""
        return memories(await self.select(memories_query(keys))) if keys else {}

    async def _look(self) -> None:
        """Read the position from the server."""
        rows = await self._client.select(POSITION_QUERY)
        try:
            # More than one would be somebody's mistake: writing again from the lowest mends it.
            position = min((int(row["position"]) for row in rows), default=0)
        except (KeyError, ValueError) as error:
            raise SourceError(
                f"the SPARQL server at {self._client.address} holds a position that is no number: its graph was "
                "not written by orion-recall"
            ) from error
        if position < self._position:
            log.warning(
                "the graph at %s is at position %d and was at %d: it is written again from there",
                self._client.address, position, self._position,
            )  # fmt: skip
        self._position, self._uncertain = position, False
