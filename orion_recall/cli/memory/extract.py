"""`orion-recall memory extract` and `extracted`: queue memories for extraction, show what was extracted."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_bus, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP
from orion_recall.cli.memory.ids import MemoryId, full_memory_id, no_such_memory
from orion_recall.cli.output import JsonFlag, console, counted, note, print_error, print_json, table
from orion_recall.cli.serving.status_workers import running_extractors
from orion_recall.errors import BusUnavailable, SettingsError
from orion_recall.memory.record.extraction_queue import ExtractionQueue
from orion_recall.memory.record.record import Record
from orion_recall.settings import Settings
from orion_recall.values import Memory

Tenant = Annotated[str | None, typer.Option(metavar="NAME", help="The tenant (default: ORION_DEFAULT_TENANT).")]


def extract_memories(
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help=f"This memory, {PREFIX_HELP}; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every memory of the tenant.")] = False,
    fallen_back: Annotated[
        bool, typer.Option("--fallen-back", help="Those that fell back to light extraction.")
    ] = False,
    extractor: Annotated[
        Literal["light", "spacy", "llm"] | None,
        typer.Option("--with", help="The extractor (default: ORION_EXTRACTOR)."),
    ] = None,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Queue memories for extraction: a running worker finds their names and statements again.

    A worker with that ORION_EXTRACTOR does it; every worker does light extraction. Until then the memories stay as
    they are. If no running worker has it, nothing is queued, and the error says what to set. Without --id, --all or
    --fallen-back it only prints how many memories are queued.

    Example: `orion-recall memory extract --fallen-back --with llm`
    """
    if bool(ids) + every + fallen_back > 1:
        raise SettingsError("give only one of --id, --all and --fallen-back")
    settings = find(data)
    chosen = extractor or settings.extractor
    whose = tenant or settings.default_tenant
    if ids or every or fallen_back:
        asyncio.run(_check_that_somebody_does_it(settings, chosen))
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
        note(f"{counted(len(queued), 'memory')} queued for {chosen}")
    return 0


def show_extracted(
    memory_id: MemoryId,
    tenant: Tenant = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show what was extracted from a memory: names, statements and times, and by which extractor.

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


async def _check_that_somebody_does_it(settings: Settings, extractor: str) -> None:
    """SettingsError where the memories would wait for ever: no worker that runs has the extractor."""
    if extractor == "light":
        return
    try:
        async with open_bus(settings) as redis:
            running = await running_extractors(redis, settings)
    except (BusUnavailable, SettingsError):
        running = None
    if extractor in (running if running is not None else {settings.extractor}):
        return
    further = ", ORION_LLM_URL and ORION_LLM_MODEL" if extractor == "llm" else ""
    has = f"they have {' and '.join(sorted(running))}" if running else "none was found"
    raise SettingsError(
        f"no running worker extracts with {extractor} ({has}), and memories would wait for ever; nothing was "
        f"queued. Set ORION_EXTRACTOR={extractor}{further} for a worker, and start it again"
    )


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
