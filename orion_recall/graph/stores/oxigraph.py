"""The embedded graph: a persistent Oxigraph store in a folder that one process opens."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

import pyoxigraph

from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import DiskShort, SourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.graph.projection.plan import OperationPlan, plan_changes, plan_removal, run_plan
from orion_recall.graph.projection.updates import METADATA_QUERY, Metadata, updates
from orion_recall.graph.stores.sparql import (
    memories,
    memories_query,
    nodes_in,
    nodes_query,
    versions_in,
    versions_query,
)
from orion_recall.graph.vocabulary import ORION, PROJECTION, Row
from orion_recall.index.embedded.folders import clear_builds, free_place, is_complete, live_place, swap, tidy
from orion_recall.index.engine_threads import EngineThreads
from orion_recall.index.metadata import refuse_another
from orion_recall.values import Change, MemoryView

_MOST_QUERIES, _MOST_ROWS, _MOST_CHARACTERS = 256, 400, 100_000


class RowCache:
    """The rows of the last few queries, those that are short. May be used from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Sequence[Row]] = OrderedDict()
        self._writes = 0
        self._lock = Lock()

    @property
    def writes(self) -> int:
        """The number of writes so far: rows that were read before a write must not be kept after it."""
        return self._writes

    def get(self, query: str) -> list[Row] | None:
        """The rows of the query, None when they are not cached."""
        with self._lock:
            rows = self._kept.get(query)
            if rows is None:
                return None
            self._kept.move_to_end(query)
            return list(rows)

    def keep(self, query: str, rows: Sequence[Row], writes: int) -> None:
        """Cache rows that were read at this number of writes, unless a write came since or they are many."""
        if len(rows) > _MOST_ROWS or sum([sum(map(len, row.values())) for row in rows]) > _MOST_CHARACTERS:
            return
        with self._lock:
            if writes != self._writes:
                return
            self._kept[query] = tuple(rows)
            while len(self._kept) > _MOST_QUERIES:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Empty the cache: the graph was written to."""
        with self._lock:
            self._writes += 1
            self._kept.clear()


def columns_and_rows(
    store: pyoxigraph.Store, query: str, *, only: pyoxigraph.NamedNode | None = None
) -> tuple[list[str], Iterator[Row]]:
    """The columns of a SPARQL SELECT and its rows, values as text; unbound ones are absent.

    `only`: over this named graph alone, which is the default graph, too.
    """
    # Not through rdflib: making its terms only to take their text costs more than the query does.
    solutions = store.query(query, default_graph=only, named_graphs=None if only is None else [only])
    assert isinstance(solutions, pyoxigraph.QuerySolutions)
    names = [variable.value for variable in solutions.variables]
    return names, (
        {name: _text(value) for name, value in zip(names, row, strict=True) if value is not None}
        for row in solutions
    )


def rows_of(store: pyoxigraph.Store, query: str) -> list[Row]:
    return list(columns_and_rows(store, query)[1])


def _text(value: pyoxigraph.NamedNode | pyoxigraph.Literal | pyoxigraph.BlankNode | pyoxigraph.Triple) -> str:
    return str(value) if isinstance(value, pyoxigraph.Triple) else value.value


log = logging.getLogger("orion_recall.sources")

_ADVICE = "delete that folder, and it will be built again from this record, or set ORION_DATA_DIR to another"
_REMOVE_BATCH = 200
# Changes written together. Larger batches cost no less a change, and hold Python's lock longer.
_APPLY_BATCH = 10
# Some milliseconds.
_ROWS_AT_A_TIME = 500
# The engine keeps what was written in memory and, once more, in its log, until its tables have it: 20 kB a memory.
# Left alone it begins at 64 MiB for each of its eight indexes.
_FLUSH_AFTER = 500


class RdfGraph:
    """The embedded graph: its folder, the folder's lock, and the threads that call the engine."""

    kind = "graph"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy = None

    def __init__(self, folder: Path, *, room: DiskSpace | None = None) -> None:
        self.folder, self.room = folder, room
        self._is_flushed = True
        self._unflushed = 0
        self._threads = EngineThreads("the graph", 2, name="graph")
        self._lock: FolderLock | None = None
        self._store: pyoxigraph.Store | None = None
        self._position = 0
        self._record: str | None = None
        self._expected: str | None = None
        self._kept = RowCache()
        self._writing = Lock()

    async def open(self) -> None:
        """Lock the folder and open the store; EngineError when it is held, SourceError when it is broken.

        AnotherRecordsCopy when it is another record's: then it is open, and refuses to be read.
        """
        self._lock = FolderLock.acquire(
            self.folder, what="the graph", hint="give each worker its own ORION_DATA_DIR"
        )
        try:
            await self._threads.run(self._load)
        except SourceError:
            await self.close()
            raise
        await self.check()

    async def close(self) -> None:
        try:
            if self._store is not None and not self._is_flushed:
                await self._threads.run(self._flush)  # or the next start would write the log's tables
            await self._threads.close()
        finally:
            self._store = None
            self._kept.forget()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def staged_rebuild(self) -> RdfGraph | None:
        """The graph that stands complete beside this one, not opened."""
        place = free_place(self.folder, self.kind)
        return RdfGraph(place, room=self.room) if is_complete(place) else None

    async def swap_in(self, built: RdfGraph) -> None:
        """The graph that was built beside takes this one's place; queries that run end with the old one."""
        self._open()
        threads, place, lock = self._threads, built.folder, built._lock
        self._store, self._position, self._record = built._store, built._position, built._record
        built._store = built._lock = None
        self._kept.forget()
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
            built._position, built._record = self._position, self._record
            await self.swap_in(built)
        except BaseException:
            await built.close()
            raise
        return await self._threads.run(lambda: clear_builds(self.folder))

    @property
    def position(self) -> int:
        """How far this copy has come in the outbox."""
        return self._position

    @property
    def database_identity(self) -> str | None:
        """The database identity of the record that the graph was built from."""
        return self._record

    @property
    def writes(self) -> int:
        return self._kept.writes

    def expect(self, identity: str) -> None:
        """Set the database identity that the graph must have."""
        self._expected = identity

    async def adopt(self) -> None:
        """Write the expected database identity into a new graph."""
        expected = self._expected
        if expected is not None:
            await self._threads.run(lambda: self._set_identity(expected))

    async def check(self) -> None:
        refuse_another(self._what, self._record, self._expected, advice=_ADVICE)

    async def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes in order and move the position. Applying them again changes nothing."""
        await self.check()
        for start in range(0, len(changes), _APPLY_BATCH):
            page = changes[start : start + _APPLY_BATCH]
            await FOREGROUND.pause()
            await self._threads.run(lambda page=page: self._write(plan_changes(page), page[-1].position))
            self._unflushed += len(page)
            if self._unflushed >= _FLUSH_AFTER:
                self._unflushed = 0
                await self._threads.run(self._flush)

    async def held(self) -> Mapping[int, int]:
        """The version of every memory that the graph holds, by key: piece by piece, recalls go in between."""

        def read() -> Mapping[int, int]:
            _, rows = columns_and_rows(self._open(), versions_query())
            return versions_in(FOREGROUND.throttled(rows, _ROWS_AT_A_TIME))

        return await self._threads.run(read)

    async def remove(self, keys: Sequence[int]) -> None:
        """Remove memories and everything that no other memory states; unknown keys are ignored."""
        for start in range(0, len(keys), _REMOVE_BATCH):
            nodes = nodes_in(await self.select(nodes_query(keys[start : start + _REMOVE_BATCH])))
            if nodes:
                await self._threads.run(lambda nodes=nodes: self._write(plan_removal(nodes), None))

    async def select(self, query: str) -> list[Row]:
        await self.check()
        self._open()
        if (known := self._kept.get(query)) is not None:
            return known
        writes = self._kept.writes
        rows = await self._threads.run(lambda: self._select(query))
        self._kept.keep(query, rows, writes)
        return rows

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        """Whole memories by key, for when the index cannot give them. Keys that are not there are left out."""
        return memories(await self.select(memories_query(keys))) if keys else {}

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
        found = Metadata.read(self._select(METADATA_QUERY))
        identities = found.identities
        if not found.is_built and len(store) > len(identities):
            log.warning("the graph in %s is of another format: it is built anew from the record", self.folder)
            store.clear()
            identities = []
        self._position, self._record = found.position, identities[0] if identities else None

    @property
    def _what(self) -> str:
        return f"the graph in {self.folder}"

    def _set_identity(self, record: str) -> None:
        place, name = pyoxigraph.NamedNode(PROJECTION), pyoxigraph.NamedNode(ORION.record)
        self._open().add(pyoxigraph.Quad(place, name, pyoxigraph.Literal(record)))
        self._record = record

    def _open(self) -> pyoxigraph.Store:
        if self._store is None:
            raise SourceError(f"the graph in {self.folder} is not open")
        return self._store

    def _select(self, query: str) -> list[Row]:
        return rows_of(self._open(), query)

    def _write(self, plan: OperationPlan, reached: int | None) -> None:
        with self._writing:
            self._check_room()
            self._is_flushed = False
            self._write_alone(plan, self._position if reached is None else reached)

    def _flush(self) -> None:
        with self._writing:
            self._is_flushed = True
            self._open().flush()

    def _check_room(self) -> None:
        """DiskShort when the disk has no room for more; what is in memory is written down first."""
        if self.room is None:
            return
        try:
            self.room.check()
        except DiskShort:
            if not self._is_flushed:
                self._is_flushed = True
                self._open().flush()
            raise

    def _write_alone(self, plan: OperationPlan, reached: int) -> None:
        # Each request is one transaction: after a crash between two of them both are written again.
        for request in updates(run_plan(plan, self._select), self._position, reached, guarded=False):
            try:
                self._open().update(request)
            finally:
                self._kept.forget()
        self._position = reached


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
