"""`orion-recall memory extract`: queues memories for extraction."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import typer

from orion_recall.cli.connect.addresses import DataFolder, Tenant, find, open_bus, with_pool
from orion_recall.cli.output import JsonFlag, counted, print_error, show, table
from orion_recall.cli.serving.status_workers import running_extractors
from orion_recall.errors import BusUnavailable, SettingsError
from orion_recall.memory.record.extraction_queue import ExtractionQueue
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings


def extract_memories(
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="This memory; again for more.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every memory of the tenant.")] = False,
    fallen_back: Annotated[bool, typer.Option("--fallen-back", help="Those that fell back to light.")] = False,
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
    is_asked = bool(ids) or every or fallen_back
    if is_asked:
        asyncio.run(_check_that_somebody_does_it(settings, chosen))

    async def queue_again(pool: Pool, whose: str) -> tuple[list[str], list[str], dict[str, int]]:
        """The ids that were queued, those that no live memory has, and how many wait for each extractor."""
        queue, queued, missing = ExtractionQueue(pool), list[str](), list[str]()
        if is_asked:
            queued = await queue.queue_again(whose, ids or None, extractor=chosen, only_noted=fallen_back)
            missing = [one for one in ids or () if one not in queued]
        return queued, missing, await queue.due()

    whose = tenant or settings.default_tenant
    queued, missing, waiting = with_pool(settings, whose, queue_again)
    show(
        {"tenant": whose, "extractor": chosen, "due": len(queued), "missing": missing, "waiting": waiting},
        table(("extractor", "memories that wait"), list(waiting.items())),
        as_json=as_json,
        remarks=[f"{counted(len(queued), 'memory')} queued for {chosen}" if queued else None],
    )
    if missing and not as_json:
        print_error("NotFound", f"{whose!r} has no live memory {', '.join(map(repr, missing))}", as_json=False)
    return 1 if missing else 0


async def _check_that_somebody_does_it(settings: Settings, extractor: str) -> None:
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
