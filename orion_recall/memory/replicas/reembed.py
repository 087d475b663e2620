"""Rebuilds index and graph while the current ones serve: with another model, or from scratch.

The embedded one is built in a place of its own under its own lock; a run that was stopped goes on where it was.
Complete, it takes the live one's place when no worker has the folder, else when the worker takes it over. On a
server it is a collection of its own, which workers are given together with the model.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Literal

from orion_recall.engines.disk_space import copy_space
from orion_recall.engines.lock import FolderLock
from orion_recall.errors import EngineError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.index.embedded.folders import (
    METADATA_FILE,
    begin,
    build_place,
    free_place,
    live_place,
    mark_complete,
    read_metadata,
    swap,
)
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.metadata import IndexMetadata, refuse_another
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import Progress
from orion_recall.memory.replicas.projector import WriterLock
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder

_AT_ONCE = 200
_ADVICE = (
    "set ORION_DATA_DIR (--data) to this record's folder, or delete the index's folder, and it will be rebuilt"
)


Built = tuple[Literal["swapped", "waiting"], int]
"""What became of a rebuild (`waiting`: for a worker to swap it in), and its position."""


async def reembed(
    record: Record, folder: Path, embedder: Embedder, sparse: SparseEncoder, *, min_free: int, advanced: Progress
) -> Built:
    """Builds the index of `folder` by the embedder's model. What stops it, another run goes on from.

    `min_free`: bytes that stay free on the disk.
    """
    identity = await record.database_identity()
    live, mine = live_place(folder), IndexMetadata.of(embedder, sparse)
    if (live / METADATA_FILE).exists():
        made_of = read_metadata(live, folder).record or None
        refuse_another(f"the index in {folder}", made_of, identity, advice=_ADVICE)
    place = build_place(folder, mine)
    build = EdgeIndex(place, embedder, sparse, room=copy_space("index", place, min_free))
    return await _built(record, build, folder, identity, advanced)


async def rebuild_graph(record: Record, folder: Path, *, min_free: int, advanced: Progress) -> Built:
    """Builds the graph of `folder` anew. As `reembed`."""
    place = free_place(folder, RdfGraph.kind)
    build = RdfGraph(place, room=copy_space("graph", place, min_free))
    return await _built(record, build, folder, await record.database_identity(), advanced)


async def _built(
    record: Record, build: EdgeIndex | RdfGraph, folder: Path, identity: str, advanced: Progress
) -> Built:
    build.expect(identity)
    await asyncio.to_thread(begin, build.folder)
    try:
        await build.open()
        if build.position == 0:
            await build.adopt()
        await _catch_up(record, build, advanced)
        if isinstance(build, EdgeIndex):
            await build.optimise()
        position = build.position
    finally:
        await build.close()
    mark_complete(build.folder)
    return ("swapped" if _swapped(folder, build.folder) else "waiting"), position


async def reembed_on_server(record: Record, index: QdrantIndex, dsn: str, *, advanced: Progress) -> int | None:
    """Fills a collection of its own on the server; its position, None when it is complete already."""
    lock = WriterLock(dsn, kind=index.kind, copy=index.copy)
    index.expect(await record.database_identity())
    try:
        await index.open()
        if index.position and await record.head() == index.position:
            return None
        await _catch_up(record, index, advanced, lock)
        return index.position
    finally:
        await lock.release()


async def _catch_up(record: Record, build: Projection, advanced: Progress, lock: WriterLock | None = None) -> None:
    while (head := await record.head()) > build.position:
        advanced(build.position, head)
        changes = await record.changes(build.position, _AT_ONCE)
        if lock is not None and not await lock.acquire():
            raise EngineError(f"a worker or another run fills {build.copy} already: wait for it, or end it first")
        await build.apply(changes)
    advanced(build.position, head)


def _swapped(folder: Path, place: Path) -> bool:
    """Whether the build is the index now: not while a worker has the folder, nor once it has taken the build."""
    with contextlib.ExitStack() as stack:
        for one in (folder, place):
            if (lock := FolderLock.try_acquire(one)) is None:
                return False
            stack.enter_context(lock)
        swap(folder, place)
    return True
