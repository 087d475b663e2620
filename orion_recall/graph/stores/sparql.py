"""The graph on a SPARQL 1.1 server: one copy that all workers share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, cast

from orion_recall.errors import AnotherRecordsCopy, SourceError, TransientSourceError
from orion_recall.graph import projection
from orion_recall.graph.projection import Metadata, Node, Operation, OperationPlan, plan_removal, updates
from orion_recall.graph.stores.sparql_client import SparqlClient
from orion_recall.graph.vocabulary import ORION, Row, finite, key_of, memory_iri, reading_rows
from orion_recall.index.metadata import refuse_another
from orion_recall.interfaces import GraphStore
from orion_recall.text.normal import text_hash
from orion_recall.text.small_talk import is_chatter
from orion_recall.values import Change, MemoryView

log = logging.getLogger("orion_recall.sources")

_OPEN_TIMEOUT_S = 2.0
_PAGE, _REMOVE_BATCH = 20_000, 200
_ADVICE = (
    "give this one a data set of its own in ORION_SPARQL_URL, or empty that one if nobody else uses it, and it "
    "will be filled from this record"
)


async def memories_by_key(graph: GraphStore, keys: Sequence[int]) -> dict[int, MemoryView]:
    """Whole memories by key; keys that are not there are left out. SourceError for an answer of another shape."""
    if not keys:
        return {}
    rows = await graph.select(
        f"SELECT ?memory ?property ?value WHERE {{ {_these(keys)} GRAPH ?tenant {{ ?memory ?property ?value }} }}"
    )
    properties: dict[str, dict[str, list[str]]] = {}
    with reading_rows():
        for row in rows:
            name = row["property"].removeprefix(str(ORION))
            properties.setdefault(row["memory"], {}).setdefault(name, []).append(row["value"])
        return {key_of(memory): _view(found) for memory, found in properties.items() if "id" in found}


async def held_nodes(graph: GraphStore, keys: Sequence[int]) -> AsyncIterator[list[Node]]:
    """The nodes of those of the memories that the graph holds, some hundred at a time."""
    for start in range(0, len(keys), _REMOVE_BATCH):
        these = _these(keys[start : start + _REMOVE_BATCH])
        rows = await graph.select(
            f"SELECT ?graph ?memory WHERE {{ {these} GRAPH ?graph {{ ?memory {ORION.id.n3()} ?id }} }}"
        )
        with reading_rows():
            nodes = [projection.node_of(row, "memory") for row in rows]
        if nodes:
            yield nodes


def _these(keys: Sequence[int]) -> str:
    return f"VALUES ?memory {{ {' '.join(memory_iri(key).n3() for key in keys)} }}"


def versions_query(*, after: str | None = None, limit: int | None = None) -> str:
    """SPARQL for rows of (memory, version); with `after` and `limit` one page in the order of IRIs."""
    bound = f'FILTER(STR(?memory) > "{memory_iri(key_of(after))}")' if after is not None else ""
    page = f" ORDER BY STR(?memory) LIMIT {limit}" if limit is not None else ""
    held = f"GRAPH ?tenant {{ ?memory {ORION.version.n3()} ?version }}"
    return f"SELECT ?memory ?version WHERE {{ {held} {bound} }}{page}"


def versions_in(rows: Iterable[Row]) -> dict[int, int]:
    """The version of every memory, by key, from the rows of `versions_query`."""
    with reading_rows():
        return {key_of(row["memory"]): int(row["version"]) for row in rows}


def _view(properties: Mapping[str, Sequence[str]]) -> MemoryView:
    one = {name: values[0] for name, values in properties.items()}
    text, occurred = one.get("content", ""), one.get("occurred")
    fields: dict[str, Any] = {f"{name}_id": one.get(name) for name in ("session", "user", "agent", "run")}
    fields |= {name: one.get(name) for name in ("kind", "title", "speaker", "uri")}
    return MemoryView(
        id=one["id"],
        text=text,
        text_hash=text_hash(text),
        **fields,
        ts=finite(occurred) if occurred is not None else None,
        source_ref="graph",
        tags=tuple(sorted(properties.get("tag", ()))),
        chatter=is_chatter(text),
    )


class SparqlGraph:
    """The graph through a client, with the position and identity that the server last reported.

    `has_record`: there is a record, and `expect` will give its identity; until then only an empty graph is read.
    """

    kind = "graph"
    shared = True
    damage: str | None = None
    stalled: str | None = None
    writes = None

    def __init__(self, client: SparqlClient, *, has_record: bool = False) -> None:
        self._client, self._has_record = client, has_record
        self._expected: str | None = None
        # As last reported; 0 and none until the server has answered once.
        self.position, self.database_identity = 0, cast("str | None", None)
        self.copy: str | None = client.address
        self._what = f"the graph at {client.address}"
        self._uncertain = True
        self._writing = asyncio.Lock()

    def expect(self, identity: str) -> None:
        """Set the database identity that the graph must have."""
        if identity != self._expected:
            self._expected, self._uncertain = identity, True

    async def adopt(self) -> None:
        """Nothing: an empty graph gets the database identity with its first memories."""

    async def check(self) -> None:
        """SourceError when the graph failed last time and does not answer now, or must not be read."""
        if self._uncertain:
            await self._read_metadata()
        self._refuse_unknown()

    async def open(self) -> None:
        """Read position and identity. Every error but AnotherRecordsCopy may pass: a server's state changes."""
        try:
            await self._read_metadata(timeout_s=_OPEN_TIMEOUT_S)
        except (TransientSourceError, AnotherRecordsCopy):
            raise
        except SourceError as error:
            raise TransientSourceError(str(error)) from error

    async def close(self) -> None:
        await self._client.close()

    async def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes in order and move the position. Applying them again changes nothing.

        When the server's position is not the one last reported, nothing is written and `position` is set to it.
        """
        if not changes:
            return
        self._refuse_unknown()
        before = self.position
        await self._write(projection.plan_changes(changes), before, changes[-1].position)
        if self.position == before != changes[-1].position:
            raise SourceError(
                f"the SPARQL server at {self._client.address} does not give back what was written: queries must "
                "see the default graph that updates write to, and ORION_SPARQL_UPDATE_URL must be of the same data"
            )

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the graph holds, by key; read in pages."""
        versions: dict[int, int] = {}
        after: str | None = None
        while True:
            rows = await self.select(versions_query(after=after, limit=_PAGE))
            versions |= versions_in(rows)
            if len(rows) < _PAGE:
                return versions
            after = rows[-1]["memory"]

    async def remove(self, keys: Sequence[int]) -> None:
        """Remove memories and what no other memory states; nothing when the position is not the last one known."""
        held = self.position
        async for nodes in held_nodes(self, keys):
            await self._write(plan_removal(nodes), held, held)

    async def select(self, query: str) -> list[Row]:
        await self.check()
        try:
            return await self._client.select(query)
        except BaseException:
            self._uncertain = True
            raise

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        return await memories_by_key(self, keys)

    def _refuse_unknown(self) -> None:
        """SourceError when the graph is another record's, or is not empty and its record is unknown."""
        refuse_another(self._what, self.database_identity, self._expected, advice=_ADVICE)
        if not self._has_record or not (self.position or self.database_identity):
            return
        if self._expected is None or self.database_identity is None:
            self._uncertain = True
            whose = "this record's" if self._expected is None else "its"
            raise TransientSourceError(f"{self._what} is not read until {whose} database identity is known")

    async def _write(self, plan: OperationPlan, held: int, reached: int) -> None:
        """Run the plan's queries, write its operations to a graph at position `held`, and read the new position."""
        async with self._writing:
            try:
                rows: Sequence[Row] | None = None
                while isinstance(operations := await asyncio.to_thread(_step, plan, rows), str):
                    rows = await self._client.select(operations)
                requests = updates(operations, held, reached, record=self._expected)
                # In a thread: rendering a few hundred memories as text would block the loop noticeably.
                while (request := await asyncio.to_thread(next, requests, None)) is not None:
                    await self._client.update(request)
                await self._read_metadata()
            except BaseException:
                self._uncertain = True
                raise

    async def _read_metadata(self, *, timeout_s: float | None = None) -> None:
        """Read position and identity from the server; AnotherRecordsCopy when they are another record's."""
        self._uncertain = True
        rows = await self._client.select(projection.METADATA_QUERY, timeout_s=timeout_s)
        with reading_rows():
            found = Metadata.read(rows)
        if found.has_other_format:
            raise SourceError(f"{self._what} is of another format: empty its data set, and it is built anew")
        # Of several identities at least one is another record's.
        identities = sorted(found.identities, key=lambda identity: identity == self._expected)
        self.database_identity = identities[0] if identities else None
        if found.position < self.position:
            told = "%s is at position %d and was at %d: it is written again from there"
            log.warning(told, self._what, found.position, self.position)
        self.position = found.position
        refuse_another(self._what, self.database_identity, self._expected, advice=_ADVICE)
        self._uncertain = False


def _step(plan: OperationPlan, rows: Sequence[Row] | None) -> str | list[Operation]:
    with reading_rows():
        try:
            return next(plan) if rows is None else plan.send(rows)
        except StopIteration as end:
            return end.value
