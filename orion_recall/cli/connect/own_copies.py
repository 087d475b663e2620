"""Opens the index and graph that the settings name, for commands that check or rebuild them.

A copy that a running worker holds is not opened: that worker is asked through the record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orion_recall.cli.connect.addresses import dsn_of
from orion_recall.engines.lock import held_by
from orion_recall.interfaces import Projection
from orion_recall.memory.record.reader import RecordReader
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import CopyRequests, Progress, Task, do
from orion_recall.memory.replicas.projector import Projector, WriterLock
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool
from orion_recall.serving.backends import graph_of, index_of, own_copy
from orion_recall.settings import Settings
from orion_recall.values import JsonValue

KINDS = ("index", "graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyName:
    """The name that a copy is registered under."""

    copy: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCopy:
    """A copy and how a task is asked of it; of one that is gone `ask` is None, and for how long it is silent."""

    name: CopyName
    ask: Callable[[Task, Progress], Awaitable[Mapping[str, JsonValue]]] | None
    silent_s: float = 0.0


class OwnCopies:
    """Maintenance of copies: `ask` one that the settings name, or any of `every`. The pool is the record's."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings, self._requests, self._reader = settings, CopyRequests(pool), RecordReader(pool)
        self._record = Record(pool)

    def is_server(self, kind: str) -> bool:
        """Whether the copy is on a server."""
        return (self._settings.qdrant_url if kind == "index" else self._settings.sparql_url) is not None

    def folder(self, kind: str) -> Path:
        """Where the embedded copy is."""
        return self._settings.data_dir / kind

    def is_there(self, kind: str) -> bool:
        """Whether there is a copy to look at: a server, or a folder with something in it."""
        folder = self.folder(kind)
        return self.is_server(kind) or any((folder / name).exists() for name in ("shard", "store", "current"))

    async def name(self, kind: str) -> CopyName:
        """What it is registered as."""
        if not self.is_server(kind):
            return CopyName(copy=own_copy(self._settings), kind=kind)
        async with contextlib.AsyncExitStack() as stack:
            return CopyName(copy=(await self._part(kind, stack)).copy or "", kind=kind)

    async def every(self) -> list[KnownCopy]:
        """The copies that the settings name, and all others that are registered."""
        found: dict[CopyName, KnownCopy] = {}
        for kind in KINDS:
            if self.is_there(kind):
                name = await self.name(kind)
                found[name] = KnownCopy(name=name, ask=partial(self.ask, kind))
        for one in await self._record.copies():
            name = CopyName(copy=one.copy, kind=one.kind)
            ask = None if one.is_gone else partial(self._answered, one.copy, one.kind)
            found.setdefault(name, KnownCopy(name=name, ask=ask, silent_s=one.silent_s))
        return list(found.values())

    async def ask(self, kind: str, task: Task, told: Progress) -> Mapping[str, JsonValue]:
        """What came of it, done here or by the worker that holds the copy.

        SourceError, EngineError, ModelError, RecordError when it cannot be done.
        """
        if not self.is_server(kind) and held_by(self.folder(kind)) is not None:
            return await self._requests.answered((await self.name(kind)).copy, kind, task, progress=told)
        async with contextlib.AsyncExitStack() as stack:
            part = await self._part(kind, stack)
            copy = part.copy or own_copy(self._settings)
            lock = WriterLock(dsn_of(self._settings), kind=kind, copy=copy) if part.shared else None
            if lock is not None:
                stack.push_async_callback(lock.release)
                if not await lock.acquire():
                    return await self._requests.answered(copy, kind, task, progress=told)
            projector = Projector(self._record, part, copy=copy, lock=lock)
            async with projector.writing:
                await projector.ready()
            return await do(task, self._reader, projector, told)

    async def _answered(self, copy: str, kind: str, task: Task, told: Progress) -> Mapping[str, JsonValue]:
        return await self._requests.answered(copy, kind, task, progress=told)

    async def _part(self, kind: str, stack: contextlib.AsyncExitStack) -> Projection:
        """The index or the graph, not opened; it is closed with the stack."""
        if kind == "index":
            embedder = await stack.enter_async_context(open_embedder(self._settings))
            part: Projection = index_of(self._settings, embedder, SparseEncoder(self._settings.keyword_weights))
        else:
            part = graph_of(self._settings)
        stack.push_async_callback(part.close)
        return part
