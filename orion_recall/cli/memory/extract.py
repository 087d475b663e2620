"""`orion-recall memory extract` and `extracted`: what memories say, found again, and shown."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.output import JsonFlag, console, counted, notes, print_error, print_json, table
from orion_recall.errors import SettingsError
from orion_recall.memory.extraction.queue import ExtractionQueue
from orion_recall.memory.record.record import Record
from orion_recall.settings import Settings
from orion_recall.values import Memory

Tenant = Annotated[str | None, typer.Option(metavar="NAME", help="Whose memories (default: the default tenant's).")]


def extract_memories(
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="This one; may be repeated.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every memory of the tenant.")] = False,
    fallen_back: Annotated[
        bool, typer.Option("--fallen-back", help="Those that light extraction had to do for another.")
    ] = False,
    extractor: Annotated[
        Literal["light", "spacy", "llm"] | None, typer.Option("--with", help="By which (default: ORION_EXTRACTOR).")
    ] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Let names and statements be found again: a running worker takes the memories up, and they stay as they are
    until it has.

    Which worker: one whose ORION_EXTRACTOR is that; light extraction is every worker's. Without --id, --all or
    --fallen-back it says how many memories wait.

    Example: `orion-recall memory extract --fallen-back --with llm`
    """
    if bool(ids) + every + fallen_back > 1:
        raise SettingsError("--id, --all and --fallen-back: one of them")
    settings = find(data)
    chosen = extractor or settings.extractor
    whose = tenant or settings.default_tenant
    queued, missing, waiting = asyncio.run(
        _queue(settings, whose, ids, chosen, only_noted=fallen_back)
        if ids or every or fallen_back
        else _waiting(settings)
    )
    if as_json:
        print_json(
            {"tenant": whose, "extractor": chosen, "due": len(queued), "missing": missing, "waiting": waiting}
        )
        return 1 if missing else 0
    console().print(table(("extractor", "memories that wait"), list(waiting.items())))
    if missing:
        print_error("NotFound", f"no live memory: {no_such_memory(whose, missing[0])}", as_json=False)
        return 1
    if queued:
        notes().print(f"{counted(len(queued), 'memory')} queued for {chosen}", markup=False)
    return 0


def show_extracted(
    memory_id: MemoryId,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """What was found in a memory: names, statements and times, by which extractor, and why by no other.

    Example: `orion-recall memory extracted m1`
    """
    settings = find(data)
    whose = tenant or settings.default_tenant

    async def get() -> Memory | None:
        async with open_postgres(settings) as pool:
            name = await full_memory_id(pool, whose, memory_id)
            return (await Record(pool).get(whose, [name])).get(name)

    memory = asyncio.run(get())
    if memory is None:
        print_error("NotFound", no_such_memory(whose, memory_id), as_json=as_json)
        return 1
    times = [{"text": one.text, "since": _iso(one.since), "until": _iso(one.until)} for one in memory.times]
    if as_json:
        print_json(
            {
                "id": memory.id,
                "entities": memory.entities,
                "statements": [asdict(edge) for edge in memory.statements],
                "times": times,
                "extracted_by": memory.extracted_by,
                "extraction_note": memory.extraction_note,
            }
        )
        return 0
    rows = [
        ("extracted by", memory.extracted_by),
        *([("because", memory.extraction_note)] if memory.extraction_note else []),
        *(("name", name) for name in memory.entities),
        *(("statement", f"{edge.subject} - {edge.relation} - {edge.object}") for edge in memory.statements),
        *(("time", f"{one['text']}: from {one['since']} to before {one['until']}") for one in times),
    ]
    console().print(table(("what", "found"), rows))
    return 0


async def _queue(
    settings: Settings, tenant: str, ids: list[str] | None, extractor: str, *, only_noted: bool
) -> tuple[list[str], list[str], dict[str, int]]:
    """The ids that were queued, those that no live memory has, and how many memories wait for each extractor."""
    async with open_postgres(settings) as pool:
        queue = ExtractionQueue(pool)
        named = {one: await full_memory_id(pool, tenant, one) for one in ids or ()}
        queued = await queue.queue_again(
            tenant, list(named.values()) or None, extractor=extractor, only_noted=only_noted
        )
        return queued, [one for one, name in named.items() if name not in queued], await queue.due()


async def _waiting(settings: Settings) -> tuple[list[str], list[str], dict[str, int]]:
    async with open_postgres(settings) as pool:
        return [], [], await ExtractionQueue(pool).due()


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
