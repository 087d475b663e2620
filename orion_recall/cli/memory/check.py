"""`orion-recall memory check`: compares every copy of index and graph with the record, and repairs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any, cast

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.own_copies import KINDS, CopyName, OwnCopies
from orion_recall.cli.connect.record import progress, with_record
from orion_recall.cli.output import JsonFlag, counted, duration, note, print_json, prose, visible
from orion_recall.errors import EngineError, ModelError, SourceError
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.drift import Progress, counts
from orion_recall.memory.replicas.maintenance import CopyRequests, Task
from orion_recall.settings import Settings

CopyReport = dict[str, Any]


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
    if as_json:
        print_json({"ok": ok, "copies": found})
    else:
        for one in found:
            prose(visible(_line(one)))
        if not found:
            note("there is no copy of index or graph yet: a worker makes them")
    return 0 if ok else 1


async def _check(settings: Settings, task: Task) -> list[CopyReport]:
    async with contextlib.AsyncExitStack() as stack:
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings))
        told = stack.enter_context(progress("repairing" if task == "repair" else "checking"))
        own, requests = OwnCopies(settings, pool), CopyRequests(pool)
        found: list[CopyReport] = []
        seen: set[CopyName] = set()
        for kind in KINDS:
            if own.is_there(kind):
                name = await own.name(kind)
                seen.add(name)
                found.append(await _told(name, own.ask(kind, task, told)))
        async for name, silent_s in _others(Record(pool), seen):
            if silent_s is not None:
                found.append(
                    {"copy": name.copy, "kind": name.kind, "ok": False, "gone": True, "silent_s": silent_s}
                )
            else:
                found.append(await _told(name, _asked(requests, name, task, told)))
    return found


async def _others(record: Record, seen: set[CopyName]) -> AsyncGenerator[tuple[CopyName, float | None]]:
    """The other registered copies, and for how many seconds those that are gone have been silent."""
    for copy in await record.copies():
        name = CopyName(copy=copy.copy, kind=copy.kind)
        if name not in seen:
            yield name, round(copy.silent_s, 1) if copy.is_gone else None


async def _asked(requests: CopyRequests, name: CopyName, task: Task, told: Progress) -> Mapping[str, Any]:
    return await requests.answered(name.copy, name.kind, task, progress=told)


async def _told(name: CopyName, answer: Any) -> CopyReport:
    one: CopyReport = {"copy": name.copy, "kind": name.kind}
    try:
        result = cast("Mapping[str, Any]", await answer)
    except (SourceError, EngineError, ModelError) as error:
        return one | {"ok": False, "error": str(error)}
    left = result.get("left", counts(result))
    return one | {"ok": left == 0} | dict(result)


def _line(one: CopyReport) -> str:
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
