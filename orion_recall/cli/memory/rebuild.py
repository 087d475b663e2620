"""`orion-recall memory rebuild`: index and graph made anew from the record."""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.own_copies import KINDS, OwnCopies
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, console, print_json, visible
from orion_recall.errors import SourceError
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.drift import Told
from orion_recall.memory.replicas.reembed import rebuild_graph, reembed
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings

Done = dict[str, Any]


class _Kind(StrEnum):
    INDEX = "index"
    GRAPH = "graph"


def rebuild_copies(
    kind: Annotated[_Kind | None, typer.Argument(help="Only this one; both without it.")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Make index and graph anew from the record, beside those that answer, and swap.

    The copies are those of this data folder. A running worker goes on answering and takes the new ones over without
    a restart. A run that was stopped goes on where it was. On a server (ORION_QDRANT_URL, ORION_SPARQL_URL) workers
    know no second place: every memory is written anew where it is, and what does not belong there is taken out;
    recalls go on meanwhile.

    Example: `orion-recall memory rebuild index`
    """
    settings = find(data)
    done = asyncio.run(_rebuild(settings, [kind.value] if kind is not None else list(KINDS)))
    if as_json:
        print_json(done)
    else:
        for one in done:
            console().print(Text(visible(_line(one))), soft_wrap=True)
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
                    result = await own.ask(kind, "rewrite", told)
                    done.append({"kind": kind, "state": "rewritten", **result})
                else:
                    done.append(await _beside(settings, own, record, kind, told))
        return done


async def _beside(settings: Settings, own: OwnCopies, record: Record, kind: str, told: Told) -> Done:
    """Builds it beside, and has it taken: here, or by the worker that has the folder."""
    if kind == "index":
        async with open_embedder(settings) as embedder:
            built = await reembed(record, own.folder(kind), embedder, SparseEncoder(), again=True, advanced=told)
        state, position = str(built.state), built.position
    else:
        state, position = await rebuild_graph(record, own.folder(kind), advanced=told)
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
        left = f"; {one['left']} memories still differ: run it again" if one["left"] else ""
        return f"{what}every memory was written anew in place, {one['held']} of them{left}"
    made = f"{what}made anew up to position {one['position']}, "
    return (
        made
        + {
            "swapped": "and in its place for every worker that starts from now on",
            "taken": "and in use by the running worker",
            "waiting": f"and complete beside the old one: the worker takes it at its next start ({one.get('why')})",
        }[one["state"]]
    )
