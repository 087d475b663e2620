"""`orion-recall memory check` and `rebuild`: index and graph, compared with the record and built from it.

A copy that a running worker holds is not opened: that worker is asked through the record.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from orion_recall.cli.addresses import DataFolder, dsn_of, find, record_of
from orion_recall.cli.output import counted, duration, progress, show
from orion_recall.engines.lock import held_by
from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.interfaces import Projection
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import Progress, Task, answered, do
from orion_recall.memory.replicas.projector import Projector, WriterLock
from orion_recall.memory.replicas.reembed import rebuild_graph, reembed, reembed_on_server
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool
from orion_recall.serving.backends import graph_of, index_of, own_copy
from orion_recall.settings import Settings
from orion_recall.values import JsonValue

Done = dict[str, Any]
KINDS = ("index", "graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCopy:
    """A copy and how a task is asked of it; of one that is gone `ask` is None, and for how long it is silent."""

    copy: str
    kind: str
    ask: Callable[[Task, Progress], Awaitable[Mapping[str, JsonValue]]] | None
    silent_s: float = 0.0


class OwnCopies:
    """Maintenance of copies: `ask` one that the settings name, or any of `every`. The pool is the record's."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings, self._pool, self.record = settings, pool, Record(pool)

    def is_server(self, kind: str) -> bool:
        return (self._settings.qdrant_url if kind == "index" else self._settings.sparql_url) is not None

    def folder(self, kind: str) -> Path:
        return self._settings.data_dir / kind

    async def every(self) -> list[KnownCopy]:
        """The copies that the settings name, and all others that are registered."""
        found: dict[tuple[str, str], KnownCopy] = {}
        for kind in KINDS:
            folder = self.folder(kind)
            if self.is_server(kind) or any((folder / name).exists() for name in ("shard", "store", "current")):
                copy = await self._name(kind)
                found[copy, kind] = KnownCopy(copy=copy, kind=kind, ask=partial(self.ask, kind))
        for one in await self.record.copies():
            ask = None if one.is_gone else partial(answered, self._pool, one.copy, one.kind)
            known = KnownCopy(copy=one.copy, kind=one.kind, ask=ask, silent_s=one.silent_s)
            found.setdefault((one.copy, one.kind), known)
        return list(found.values())

    async def ask(self, kind: str, task: Task, told: Progress) -> Mapping[str, JsonValue]:
        """What came of it, done here or by the worker that holds the copy.

        SourceError, EngineError, ModelError, RecordError when it cannot be done.
        """
        if not self.is_server(kind) and held_by(self.folder(kind)) is not None:
            return await answered(self._pool, await self._name(kind), kind, task, told)
        async with contextlib.AsyncExitStack() as stack:
            part = await self._part(kind, stack)
            copy = part.copy or own_copy(self._settings)
            lock = WriterLock(dsn_of(self._settings), kind=kind, copy=copy) if part.shared else None
            if lock is not None:
                stack.push_async_callback(lock.release)
                if not await lock.acquire():
                    return await answered(self._pool, copy, kind, task, told)
            projector = Projector(self.record, part, copy=copy, lock=lock)
            async with projector.writing:
                await projector.ready()
            return await do(task, projector, told)

    async def _name(self, kind: str) -> str:
        if not self.is_server(kind):
            return own_copy(self._settings)
        async with contextlib.AsyncExitStack() as stack:
            return (await self._part(kind, stack)).copy or ""

    async def _part(self, kind: str, stack: contextlib.AsyncExitStack) -> Projection:
        """The index or the graph, not opened; it is closed with the stack."""
        if kind == "index":
            embedder = await stack.enter_async_context(open_embedder(self._settings))
            part: Projection = index_of(self._settings, embedder, SparseEncoder(self._settings.keyword_weights))
        else:
            part = graph_of(self._settings)
        stack.push_async_callback(part.close)
        return part


def check_copies(
    repair: Annotated[bool, typer.Option("--repair", help="Write what differs again, from the record.")] = False,
    data: DataFolder = None,
) -> int:
    """Compare every copy of index and graph with the record.

    Counted are memories that a copy lacks, has in another version, or should not have, up to the copy's own
    position in the outbox: what it has not read yet is lag, not drift. Running workers check their copies
    themselves and go on answering; a copy without a worker is opened here. Exit code 1 when a copy differs and was
    not repaired, or could not be checked; copies of workers that are gone are named and not waited for.

    Example: `orion-recall memory check --repair`
    """
    task: Task = "repair" if repair else "check"

    async def check(settings: Settings) -> list[Done]:
        async with record_of(settings) as (settings, pool):
            with progress("repairing" if repair else "checking") as told:
                return [await _checked(one, task, told) for one in await OwnCopies(settings, pool).every()]

    found = asyncio.run(check(find(data)))
    ok = all(one["ok"] for one in found if not one.get("gone"))
    nothing = None if found else "there is no copy of index or graph yet: a worker makes them"
    show({"ok": ok, "copies": found}, *map(_checked_line, found), remarks=[nothing])
    return 0 if ok else 1


async def _checked(known: KnownCopy, task: Task, told: Progress) -> Done:
    one: Done = {"copy": known.copy, "kind": known.kind}
    if known.ask is None:
        return one | {"ok": False, "gone": True, "silent_s": round(known.silent_s, 1)}
    try:
        result = await known.ask(task, told)
    except (SourceError, EngineError, ModelError) as error:
        return one | {"ok": False, "error": str(error)}
    left = result.get("left", any(result[sort] for sort in ("missing", "stale", "extra")))
    return one | {"ok": not left} | dict(result)


def _checked_line(one: Done) -> str:
    what = f"{one['kind']} of {one['copy']}:"
    if one.get("gone"):
        return f"{what} not checked, no heartbeat for {duration(one['silent_s'])}"
    if "error" in one:
        return f"{what} could not be checked: {one['error']}"
    differing = ", ".join(f"{one[sort]} {sort}" for sort in ("missing", "stale", "extra") if one[sort])
    if not differing:
        return f"{what} in order, {counted(one['held'], 'memory')} at position {one['position']}"
    shown = "; ".join(f"{sort} {', '.join(ids)}" for sort, ids in one["examples"].items())
    if "left" not in one:
        return f"{what} {differing} ({shown}); give --repair to write them again"
    return f"{what} {differing} ({shown}); " + (f"{one['left']} still wrong" if one["left"] else "repaired")


def rebuild_copies(
    kind: Annotated[Literal["index", "graph"] | None, typer.Argument(help="Only this one (default: both).")] = None,
    data: DataFolder = None,
) -> int:
    """Rebuild index and graph from the record, next to the ones in use, and swap them in.

    The copies are those of this data folder. A running worker goes on answering and takes the new ones over
    without a restart; a run that was stopped goes on where it was. On a server (ORION_QDRANT_URL,
    ORION_SPARQL_URL) every memory is written again in place, and what does not belong there is deleted.

    It is needed when the model, its precision (ORION_EMBEDDING_PRECISION) or ORION_TOKEN_VECTORS has changed: the
    index is made with the configured model, and a worker takes it when it is started with these settings. On a
    server name a new collection in ORION_QDRANT_COLLECTION.

    Example: `orion-recall memory rebuild index`
    """
    kinds = list(KINDS) if kind is None else [kind]

    async def rebuild(settings: Settings) -> list[Done]:
        async with record_of(settings) as (settings, pool):
            own, done = OwnCopies(settings, pool), list[Done]()
            for one in kinds:
                with progress(f"the {one}") as told:
                    rebuilt = _on_server if own.is_server(one) else _rebuilt
                    done.append(await rebuilt(settings, own, one, told))
            return done

    done = asyncio.run(rebuild(find(data)))
    show(done, *map(_rebuilt_line, done))
    return 1 if any(one.get("left") for one in done) else 0


async def _on_server(settings: Settings, own: OwnCopies, kind: str, told: Progress) -> Done:
    if kind == "index":
        async with open_embedder(settings) as embedder:
            index = index_of(settings, embedder, SparseEncoder(settings.keyword_weights))
            assert isinstance(index, QdrantIndex)
            try:
                position = await reembed_on_server(own.record, index, dsn_of(settings), advanced=told)
            finally:
                await index.close()
        if position is not None:
            return {"kind": kind, "state": "built", "model": embedder.name, "position": position}
    return {"kind": kind, "state": "rewritten", **await own.ask(kind, "rewrite", told)}


async def _rebuilt(settings: Settings, own: OwnCopies, kind: str, told: Progress) -> Done:
    folder, least = own.folder(kind), settings.min_free_bytes
    if kind == "index":
        async with open_embedder(settings) as embedder:
            sparse = SparseEncoder(settings.keyword_weights)
            state, position = await reembed(own.record, folder, embedder, sparse, min_free=least, advanced=told)
    else:
        state, position = await rebuild_graph(own.record, folder, min_free=least, advanced=told)
    one: Done = {"kind": kind, "state": state, "position": position}
    if state != "waiting":
        return one
    try:
        taken = await own.ask(kind, "take", lambda done, total: None)
    except SourceError as error:
        return one | {"why": str(error)}
    if not taken["taken"]:
        return one | {"why": "its worker uses another model"}
    return one | {"state": "taken", "position": taken["position"]}


def _rebuilt_line(one: Done) -> str:
    what = f"{one['kind']}: "
    if one["state"] == "rewritten":
        left = f"; {counted(one['left'], 'memory')} still wrong: run it again" if one["left"] else ""
        return f"{what}{counted(one['held'], 'memory')} written again in place{left}"
    how = {
        "swapped": "swapped in for every worker that starts from now on",
        "taken": "in use by the running worker",
        "built": "the collection is filled: start the workers with these settings",
        "waiting": f"complete next to the old one: the worker takes it at its next start ({one.get('why')})",
    }
    return f"{what}rebuilt up to position {one['position']}, {how[one['state']]}"
