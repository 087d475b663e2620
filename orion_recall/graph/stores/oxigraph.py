"""The embedded graph: a persistent Oxigraph store in a folder that one process opens."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock

import pyoxigraph

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import DiskShort, SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.graph import projection
from orion_recall.graph.projection import Metadata, OperationPlan, plan_changes, plan_removal, run_plan, updates
from orion_recall.graph.stores.sparql import held_nodes, memories_by_key, versions_in, versions_query
from orion_recall.graph.vocabulary import ORION, PROJECTION, Row
from orion_recall.index.embedded.folders import clear_builds, free_place, is_complete, live_place, swap, tidy
from orion_recall.index.engine_threads import EngineThreads, to_the_end
from orion_recall.index.metadata import refuse_another
from orion_recall.values import Change, MemoryView

log = logging.getLogger("orion_recall.sources")

_ADVICE = "delete that folder, and it will be built again from this record, or set ORION_DATA_DIR to another"
# Changes written together. Larger batches cost no less a change, and hold Python's lock longer.
_APPLY_BATCH = 10
# Some milliseconds.
_ROWS_AT_A_TIME = 500
# The engine keeps what was written in memory and, once more, in its log, until its tables have it: 20 kB a memory.
# Left alone it begins at 64 MiB for each of its eight indexes.
_FLUSH_AFTER = 500


def columns_and_rows(
    store: pyoxigraph.Store, query: str, *, only: pyoxigraph.NamedNode | None = None
) -> tuple[list[str], Iterator[Row]]:
    """The columns of a SPARQL SELECT and its rows, values as text; `only`: over this named graph alone."""
    # Not through rdflib: making its terms only to take their text costs more than the query does.
    solutions = store.query(query, default_graph=only, named_graphs=None if only is None else [only])
    assert isinstance(solutions, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    return names, (
        {
            name: str(value) if isinstance(value, pyoxigraph.Triple) else value.value
            for name, value in zip(names, row, strict=True)
            if value is not None
        }
        for row in solutions
    )


def rows_of(store: pyoxigraph.Store, query: str) -> list[Row]:
    return list(columns_and_rows(store, query)[1])


class RdfGraph:
    """The embedded graph: its folder, the folder's lock, and the threads that call the engine."""

    kind = "graph"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy = None

    def __init__(self, folder: Path, *, room: DiskSpace | None = None) -> None:
        self.folder, self.room = folder, room
        self.writes = 0
        self._unflushed = 0
        self._threads = EngineThreads("the graph", 2, name="graph")
        self._lock: FolderLock | None = None
        self._store: pyoxigraph.Store | None = None
        self.position = 0
        self.database_identity: str | None = None
        self._expected: str | None = None
        self._writing = RLock()

    async def open(self) -> None:
        """Lock the folder and open the store; EngineError when it is held, SourceError when it is broken."""
        self._lock = FolderLock.acquire(
            self.folder, what="the graph", hint="give each worker its own ORION_DATA_DIR"
        )
        try:
            await self._threads.run(self._load)
        except BaseException:
            # Cancelled, too: the thread would go on writing into a folder that is nobody's.
            await to_the_end(self.close())
            raise
        await self.check()

    async def close(self) -> None:
        try:
            if self._store is not None:
                await self._threads.run(self._flush)  # or the next start would write the log's tables
            await self._threads.close()
        finally:
            self._store = None
            self.writes += 1
            if self._lock is not None:
                self._lock.release()

    def staged_rebuild(self) -> RdfGraph | None:
        """The graph that stands complete beside this one, not opened."""
        place = free_place(self.folder, self.kind)
        return RdfGraph(place, room=self.room) if is_complete(place) else None

    async def swap_in(self, built: RdfGraph) -> None:
        """The graph that was built beside takes this one's place; queries that run end with the old one."""
        self._open()
        threads, place, lock = self._threads, built.folder, built._lock
        self._store, self.position, self.database_identity = built._store, built.position, built.database_identity
        built._store = built._lock = None
        self.writes += 1
        self._threads = EngineThreads("the graph", 2, name="graph")
        await asyncio.sleep(0)  # what was asked of the old one in this turn of the loop is on its way now
        await threads.close()
        await self._threads.run(lambda: swap(self.folder, place))
        if lock is not None:
            lock.release()

    async def compact(self) -> tuple[int, list[str]]:
        """Writes the graph into new files, and deletes the old ones: the engine keeps every text that it ever held.

        Nothing may be written meanwhile. How many unused builds went too, and names of those others are at.
        """
        store, place = self._open(), free_place(self.folder, "compacted")
        built = RdfGraph(place)
        built._lock = FolderLock.acquire(place, what="the graph's new files", hint="or wait until it is done")
        try:
            built._store = await self._threads.run(lambda: _copied(store, place))
            built.position, built.database_identity = self.position, self.database_identity
            await self.swap_in(built)
        except BaseException:
            await built.close()
            raise
        return await self._threads.run(lambda: clear_builds(self.folder))

    def expect(self, identity: str) -> None:
        self._expected = identity

    async def adopt(self) -> None:
        """Write the expected database identity into a new graph."""
        if self._expected is not None:
            place, identity = pyoxigraph.NamedNode(PROJECTION), pyoxigraph.Literal(self._expected)
            quad = pyoxigraph.Quad(place, pyoxigraph.NamedNode(ORION.record), identity)
            await self._threads.run(lambda: self._open().add(quad))
            self.database_identity = self._expected

    async def check(self) -> None:
        refuse_another(f"the graph in {self.folder}", self.database_identity, self._expected, advice=_ADVICE)

    async def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes in order and move the position. Applying them again changes nothing."""
        await self.check()
        for start in range(0, len(changes), _APPLY_BATCH):
            page = changes[start : start + _APPLY_BATCH]
            await FOREGROUND.pause()
            await self._threads.run(lambda page=page: self._write(plan_changes(page), page[-1].position, len(page)))
            if self._unflushed >= _FLUSH_AFTER:
                await self._threads.run(self._flush)

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the graph holds, by key: piece by piece, recalls go in between."""

        def read() -> Mapping[int, int]:
            _, rows = columns_and_rows(self._open(), versions_query())
            return versions_in(FOREGROUND.throttled(rows, _ROWS_AT_A_TIME))

        return await self._threads.run(read)

    async def remove(self, keys: Sequence[int]) -> None:
        """Remove memories and everything that no other memory states; unknown keys are ignored."""
        async for nodes in held_nodes(self, keys):
            await self._threads.run(lambda nodes=nodes: self._write(plan_removal(nodes), self.position, len(nodes)))

    async def select(self, query: str) -> list[Row]:
        await self.check()
        return await self._threads.run(lambda: rows_of(self._open(), query))

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        return await memories_by_key(self, keys)

    def _load(self) -> None:
        if self.room is not None:
            self.room.check_opening()
        self.folder.mkdir(parents=True, exist_ok=True)
        place = live_place(self.folder)
        tidy(self.folder, place)
        try:
            store = pyoxigraph.Store(str(place / "store"))
        except (OSError, RuntimeError, ValueError) as error:
            raise SourceError(
                f"the graph in {self.folder} cannot be opened ({error}): delete the folder and it will be rebuilt"
            ) from error
        self._store = store
        found = Metadata.read(rows_of(store, projection.METADATA_QUERY))
        identities = found.identities
        if not found.is_built and len(store) > len(identities):
            log.warning("the graph in %s is of another format: it is built anew from the record", self.folder)
            store.clear()
            identities = []
        self.position, self.database_identity = found.position, identities[0] if identities else None

    def _open(self) -> pyoxigraph.Store:
        if self._store is None:
            raise SourceError(f"the graph in {self.folder} is not open")
        return self._store

    def _write(self, plan: OperationPlan, reached: int, changes: int) -> None:
        with self._writing:
            if self.room is not None:
                try:
                    self.room.check()
                except DiskShort:
                    self._flush()  # what is in memory is written down
                    raise
            self._unflushed += changes
            # Each request is one transaction: after a crash between two of them both are written again.
            operations = run_plan(plan, lambda query: rows_of(self._open(), query))
            for request in updates(operations, self.position, reached, guarded=False):
                try:
                    self._open().update(request)
                finally:
                    self.writes += 1
            self.position = reached

    def _flush(self) -> None:
        with self._writing:
            if self._unflushed:
                self._unflushed = 0
                self._open().flush()


def _copied(store: pyoxigraph.Store, place: Path) -> pyoxigraph.Store:
    path, dump = place / "store", place / "statements.nq"
    shutil.rmtree(path, ignore_errors=True)
    try:
        store.dump(str(dump), pyoxigraph.RdfFormat.N_QUADS)
        copy = pyoxigraph.Store(str(path))
        copy.bulk_load(path=str(dump), format=pyoxigraph.RdfFormat.N_QUADS)
        copy.flush()
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"the graph cannot be written anew in {place}: {error}") from error
    finally:
        dump.unlink(missing_ok=True)
    if len(copy) != len(store):
        raise SourceError(f"the graph cannot be written anew in {place}: statements are missing")
    return copy
