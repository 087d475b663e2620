"""The graph on a SPARQL 1.1 server: one copy that all workers share.

The server may be away, at the start too: then a search is a SourceError, and one after its return finds it. Nobody
but the server knows how far the graph has come. So the position is read there after every write, and after every
failure: a server that came back empty or from a backup is filled from where it is.

Beside the position is the mark of the record that the graph is of. What is another record's, or may be, is neither
read nor written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from orion_recall.errors import AnotherRecordsCopy, SourceError, TransientSourceError
from orion_recall.graph.projection.facts import OperationPlan
from orion_recall.graph.projection.memories import plan_changes, plan_removal
from orion_recall.graph.projection.operations import Operation
from orion_recall.graph.projection.updates import (
    FORGET_OTHER_FORMAT,
    METADATA_QUERY,
    OTHER_FORMAT_QUERY,
    adoption_update,
    clear_update,
    count_query,
    identities_in,
    position_in,
    updates,
)
from orion_recall.graph.stores.memory_queries import (
    held_query,
    memories,
    memories_query,
    nodes_in,
    places_query,
    versions_in,
)
from orion_recall.graph.stores.sparql_client import SparqlClient
from orion_recall.graph.terms import Row
from orion_recall.index.record_identity import refuse_another, refuse_without
from orion_recall.text.normal import memory_key
from orion_recall.values import Change, Memory, MemoryView

log = logging.getLogger("orion_recall.sources")

_LOOK_S = 2.0
_PAGE, _AT_ONCE = 20_000, 200
_ADVICE = (
    "give this one a data set of its own in ORION_SPARQL_URL, or empty that one if nobody else uses it, and it "
    "will be filled from this record"
)


class SparqlGraph:
    """The graph's client, and what the graph said of itself when it was last looked at.

    `has_record`: there is a record, whose mark `expect` will tell; until then nothing is read but an empty graph.
    """

    kind = "graph"
    shared = True

    def __init__(self, client: SparqlClient, *, has_record: bool = False) -> None:
        self._client = client
        self._has_record = has_record
        self._expected: str | None = None
        self._record: str | None = None
        self._position = 0
        self._uncertain = True
        # Whether it is a graph of this format, as last seen; one that is not is emptied before it is written to.
        self._begun = False
        self._warned = False
        self._writing = asyncio.Lock()

    @property
    def copy(self) -> str | None:
        """The server's address, without secrets."""
        return self._client.address

    @property
    def position(self) -> int:
        """How far the graph has come in the outbox, as last seen; 0 while the server has never answered."""
        return self._position

    @property
    def record(self) -> str | None:
        """The mark of the record that the graph is of, as last seen."""
        return self._record

    def expect(self, record: str) -> None:
        """The mark of the record that the graph must be of."""
        if record != self._expected:
            self._expected, self._uncertain = record, True

    async def adopt(self, newest: Memory | None) -> None:
        """Mark a graph that was filled before there were marks; an empty one is marked with its first memories."""
        if newest is None or self._expected is None:
            return
        try:
            key = memory_key(newest.tenant, newest.id)
            held = memories(await self._client.select(memories_query([key])))
            refuse_without(self._what, newest, held, advice=_ADVICE)
            await self._client.update(adoption_update(self._position, self._expected))
            await self._look()
        except BaseException:
            self._uncertain = True
            raise

    async def check(self) -> None:
        """SourceError when the graph did not answer last time and does not now, or may not be read."""
        if self._uncertain:
            await self._look()
        self._refuse_unknown()

    async def open(self) -> None:
        """See where the graph is; again when another may have moved it.

        AnotherRecordsCopy when it is another record's. TransientSourceError whatever else keeps the server from
        relations_of_kind: it may change there, without a word to us.
        """
        try:
            await self._look(timeout_s=_LOOK_S)
        except (TransientSourceError, AnotherRecordsCopy):
            raise
        except SourceError as error:
            raise TransientSourceError(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def apply(self, changes: Sequence[Change]) -> None:
        """Put changes into the graph, in order, and move the position. Again is harmless.

        When the graph is not where it was last seen, nothing is written and the position becomes where it is.
        """
        if not changes:
            return
        self._refuse_unknown()
        before = self._position
        await self._write(plan_changes(changes), before, changes[-1].position)
        if self._position == before != changes[-1].position:
            raise SourceError(
                f"the SPARQL server at {self._client.address} does not give back what was written: queries must "
                "see the default graph that updates write to, and ORION_SPARQL_UPDATE_URL must be of the same data"
            )

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the graph holds, by key; read in pages."""
        versions: dict[int, int] = {}
        after: str | None = None
        while True:
            rows = await self.select(held_query(after=after, limit=_PAGE))
            versions |= versions_in(rows)
            if len(rows) < _PAGE:
                return versions
            after = rows[-1]["memory"]

    async def remove(self, keys: Sequence[int]) -> None:
        """Take memories out with all that only they told; those that are not there are none.

        Nothing is taken out of a graph that is not where it was last seen.
        """
        held = self._position
        for start in range(0, len(keys), _AT_ONCE):
            places = nodes_in(await self.select(places_query(keys[start : start + _AT_ONCE])))
            if places:
                await self._write(plan_removal(places), held, held)

    async def select(self, query: str) -> list[Row]:
        """The rows of a SPARQL SELECT, values as text; unbound ones are absent."""
        await self.check()
        try:
            return await self._client.select(query)
        except BaseException:
            self._uncertain = True
            raise

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key, for when the index cannot give them. Keys that are not there are left out."""
        return memories(await self.select(memories_query(keys))) if keys else {}

    @property
    def _what(self) -> str:
        return f"the graph at {self._client.address}"

    def _refuse_unknown(self) -> None:
        """SourceError when the graph is another record's, or holds something and it is not known whose."""
        refuse_another(self._what, self._record, self._expected, advice=_ADVICE)
        if not self._has_record or not (self._position or self._record):
            return
        if self._expected is None or self._record is None:
            self._uncertain = True
            why = "this record's mark is not known yet" if self._expected is None else "it has no record's mark yet"
            raise TransientSourceError(f"{self._what} is not read before it is seen to be of this record: {why}")

    async def _write(self, asking: OperationPlan, held: int, reached: int) -> None:
        """Ask what must be known, write to a graph at position `held`, and see where it is then."""
        async with self._writing:
            try:
                if not self._begun:
                    await self._empty()
                operations = await self._answered(asking)
                requests = updates(operations, held, reached, record=self._expected)
                # Writing a few hundred memories as text takes long enough to be felt: in a thread.
                while (request := await asyncio.to_thread(next, requests, None)) is not None:
                    await self._client.update(request)
                await self._look()
            except BaseException:
                self._uncertain = True
                raise

    async def _answered(self, asking: OperationPlan) -> list[Operation]:
        """The operations at the end of a conversation with the server."""
        rows: Sequence[Row] | None = None
        while True:
            step = await asyncio.to_thread(_step, asking, rows)
            if not isinstance(step, str):
                return step
            rows = await self._client.select(step)

    async def _empty(self) -> None:
        """Take out what another format has left. To a graph of this one it does nothing, however late."""
        try:
            graphs = [row["graph"] for row in await self._client.select(OTHER_FORMAT_QUERY)]
            for graph in graphs:
                await self._empty_one(graph)
        except (LookupError, ValueError) as error:
            raise SourceError("the graph answers with rows that were not asked for") from error
        await self._client.update(FORGET_OTHER_FORMAT)

    async def _empty_one(self, graph: str) -> None:
        before: int | None = None
        while left := int((await self._client.select(count_query(graph)))[0]["count"]):
            if before is not None and left >= before:
                raise SourceError(
                    f"the SPARQL server at {self._client.address} does not let go of a graph of another "
                    "format: empty it, and it is built anew"
                )
            before = left
            await self._client.update(clear_update(graph))

    async def _look(self, *, timeout_s: float | None = None) -> None:
        """Read position and mark from the server; AnotherRecordsCopy when they are another record's."""
        self._uncertain = True
        rows = await self._client.select(METADATA_QUERY, timeout_s=timeout_s)
        try:
            found = position_in(rows)
        except (KeyError, ValueError) as error:
            raise SourceError(
                f"the SPARQL server at {self._client.address} holds a position that is no number: its graph was "
                "not written by orion-recall"
            ) from error
        if found is None and any("position" in row for row in rows) and not self._warned:
            self._warned = True
            log.warning(
                "the graph at %s is of another format: it is built anew from the record", self._client.address
            )
        marks = identities_in(rows)
        # Of several marks one at least is another's.
        self._record = next((mark for mark in marks if mark != self._expected), marks[0] if marks else None)
        position = found or 0
        if position < self._position:
            log.warning(
                "the graph at %s is at position %d and was at %d: it is written again from there",
                self._client.address, position, self._position,
            )  # fmt: skip
        self._position, self._begun = position, found is not None
        refuse_another(self._what, self._record, self._expected, advice=_ADVICE)
        self._uncertain = False


def _step(asking: OperationPlan, rows: Sequence[Row] | None) -> str | list[Operation]:
    """The next question, or the operations at the end."""
    try:
        return next(asking) if rows is None else asking.send(rows)
    except StopIteration as end:
        return end.value
    except (LookupError, ValueError) as error:
        raise SourceError("the graph answers with rows that were not asked for") from error
