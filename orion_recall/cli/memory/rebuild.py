"""`orion-recall memory rebuild`: rebuilds index and graph from the record."""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.own_copies import KINDS, OwnCopies
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, counted, print_json, prose, visible
from orion_recall.errors import SettingsError, SourceError
from orion_recall.memory.record.keyword_lengths import measure_lengths
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.drift import Progress
from orion_recall.memory.replicas.reembed import rebuild_graph, reembed
from orion_recall.models.opening import open_embedder
from orion_recall.serving.backends import sparse_encoder_of
from orion_recall.settings import Settings

Done = dict[str, Any]


class _Kind(StrEnum):
    INDEX = "index"
    GRAPH = "graph"


def rebuild_copies(
    kind: Annotated[_Kind | None, typer.Argument(help="Only this one (default: both).")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the tenants' mean lengths of documents anew.")
    ] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Rebuild index and graph from the record, next to the ones in use, and swap them in.

    The copies are those of this data folder. A running worker goes on answering and takes the new ones over without
    a restart. A run that was stopped goes on where it was. On a server (ORION_QDRANT_URL, ORION_SPARQL_URL) there
    is no second place: every memory is written again in place, and what does not belong there is deleted; recalls
    go on meanwhile.

    With `length=corpus` in ORION_KEYWORD_WEIGHTS the first rebuild measures the mean length of each tenant's
    documents, and so does one with `--measure`. All copies of the index are then rebuilt, one after the other: a
    worker refuses an index of an earlier measurement at its next start.

    Example: `orion-recall memory rebuild index`
    """
    settings = find(data)
    if measure and (settings.keyword_weights.length is not None or kind is _Kind.GRAPH):
        raise SettingsError("--measure is for an index with length=corpus in ORION_KEYWORD_WEIGHTS")
    done = asyncio.run(_rebuild(settings, [kind.value] if kind is not None else list(KINDS), measure=measure))
    if as_json:
        print_json(done)
    else:
        for one in done:
            prose(visible(_line(one)))
    return 1 if any(one.get("left") for one in done) else 0


async def _rebuild(settings: Settings, kinds: list[str], *, measure: bool) -> list[Done]:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        own, record = OwnCopies(settings, pool), Record(pool)
        if _Kind.INDEX.value in kinds and settings.keyword_weights.length is None:
            with progress("mean lengths") as told:
                await measure_lengths(record, pool, again=measure, advanced=told)
        done: list[Done] = []
        for kind in kinds:
            with progress(f"the {kind}") as told:
                if own.is_server(kind):
                    result = await own.ask(kind, "rewrite", told)
                    done.append({"kind": kind, "state": "rewritten", **result})
                else:
                    done.append(await _rebuilt(settings, own, record, kind, told))
        return done


async def _rebuilt(settings: Settings, own: OwnCopies, record: Record, kind: str, told: Progress) -> Done:
    """Builds a second copy and swaps it in: here, or by the worker that holds the folder."""
    folder, least = own.folder(kind), settings.min_free_bytes
    if kind == "index":
        async with open_embedder(settings) as embedder:
            built = await reembed(
                record,
                folder,
                embedder,
                await sparse_encoder_of(settings),
                again=True,
                min_free_bytes=least,
                advanced=told,
            )
        state, position = str(built.state), built.position
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


def _line(one: Done) -> str:
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
            "waiting": f"complete next to the old one: the worker takes it at its next start ({one.get('why')})",
        }[one["state"]]
    )
