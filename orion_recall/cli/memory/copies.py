"""`orion-recall memory check` and `rebuild`: index and graph, compared with the record and built from it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any, Literal

import typer

from orion_recall.cli.connect.addresses import DataFolder, dsn_of, find, open_postgres, with_record
from orion_recall.cli.connect.own_copies import KINDS, KnownCopy, OwnCopies
from orion_recall.cli.output import JsonFlag, counted, duration, progress, show
from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.maintenance import Progress, Task
from orion_recall.memory.replicas.reembed import rebuild_graph, reembed, reembed_on_server
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.serving.backends import index_of
from orion_recall.settings import Settings

Done = dict[str, Any]


def check_copies(
    repair: Annotated[bool, typer.Option("--repair", help="Write what differs again, from the record.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Compare every copy of index and graph with the record.

    Counted are memories that a copy lacks, has in another version, or should not have, up to the copy's own
    position in the outbox: what it has not read yet is lag, not drift. Running workers check their copies
    themselves and go on answering; a copy without a worker is opened here. Exit code 1 when a copy differs and was
    not repaired, or could not be checked; copies of workers that are gone are named and not waited for.

    Example: `orion-recall memory check --repair`
    """
    settings = find(data)
    found = asyncio.run(_check(settings, "repair" if repair else "check"))
    ok = all(one["ok"] for one in found if not one.get("gone"))
    show(
        {"ok": ok, "copies": found},
        *map(_checked_line, found),
        as_json=as_json,
        remarks=[] if found else ["there is no copy of index or graph yet: a worker makes them"],
    )
    return 0 if ok else 1


async def _check(settings: Settings, task: Task) -> list[Done]:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        told = stack.enter_context(progress("repairing" if task == "repair" else "checking"))
        return [await _checked(one, task, told) for one in await OwnCopies(settings, pool).every()]


async def _checked(known: KnownCopy, task: Task, told: Progress) -> Done:
    one: Done = {"copy": known.name.copy, "kind": known.name.kind}
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
    as_json: JsonFlag = False,
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
    settings = find(data)
    done = asyncio.run(_rebuild(settings, [kind] if kind is not None else list(KINDS)))
    show(done, *map(_rebuilt_line, done), as_json=as_json)
    return 1 if any(one.get("left") for one in done) else 0


async def _rebuild(settings: Settings, kinds: list[str]) -> list[Done]:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        own, record = OwnCopies(settings, pool), Record(pool)
        done: list[Done] = []
        for kind in kinds:
            with progress(f"the {kind}") as told:
                if own.is_server(kind):
                    done.append(await _on_server(settings, own, record, kind, told))
                else:
                    done.append(await _rebuilt(settings, own, record, kind, told))
        return done


async def _on_server(settings: Settings, own: OwnCopies, record: Record, kind: str, told: Progress) -> Done:
    if kind == "index":
        async with open_embedder(settings) as embedder:
            index = index_of(settings, embedder, SparseEncoder(settings.keyword_weights))
            assert isinstance(index, QdrantIndex)
            try:
                position = await reembed_on_server(record, index, dsn_of(settings), advanced=told)
            finally:
                await index.close()
        if position is not None:
            return {"kind": kind, "state": "built", "model": embedder.name, "position": position}
    return {"kind": kind, "state": "rewritten", **await own.ask(kind, "rewrite", told)}


async def _rebuilt(settings: Settings, own: OwnCopies, record: Record, kind: str, told: Progress) -> Done:
    folder, least = own.folder(kind), settings.min_free_bytes
    if kind == "index":
        async with open_embedder(settings) as embedder:
            state, position = await reembed(
                record,
                folder,
                embedder,
                SparseEncoder(settings.keyword_weights),
                min_free_bytes=least,
                advanced=told,
            )
    else:
        state, position = await rebuild_graph(record, folder, min_free_bytes=least, advanced=told)
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
    made = f"{what}rebuilt up to position {one['position']}, "
    return (
        made
        + {
            "swapped": "swapped in for every worker that starts from now on",
            "taken": "in use by the running worker",
            "built": "the collection is filled: start the workers with these settings",
            "waiting": f"complete next to the old one: the worker takes it at its next start ({one.get('why')})",
        }[one["state"]]
    )
