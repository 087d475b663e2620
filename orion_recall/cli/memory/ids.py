"""Memory ids on a command line: whole, or as a unique prefix."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import open_postgres
from orion_recall.cli.connect.ids import MIN_PREFIX, PREFIX_HELP, full_id
from orion_recall.errors import RecordError
from orion_recall.memory.record.reader import RecordBrowser
from orion_recall.postgres.pool import Pool
from orion_recall.settings import Settings

MemoryId = Annotated[str, typer.Argument(metavar="ID", help=f"The memory's id, {PREFIX_HELP}.")]


async def full_memory_id(pool: Pool, tenant: str, given: str) -> str:
    """The id that is meant, of any memory there ever was; what was given where there is none."""
    return await full_id("memory", given, partial(RecordBrowser(pool).ids_starting, tenant)) or given


def full_live_ids(settings: Settings, tenant: str | None, given: Sequence[str], *, as_json: bool) -> list[str]:
    """The ids that are meant, of live memories, for a command that changes them over the bus.

    An id that is not found, or cannot be looked up without Postgres, stays as it was given: the worker judges it.
    So does every id with `as_json`: a program whose memory is missing must not change another that begins so.
    """

    async def look_up() -> list[str]:
        async with open_postgres(settings) as pool:
            browser, whose = RecordBrowser(pool), tenant or settings.default_tenant
            starting = partial(browser.ids_starting, whose, live_only=True)
            return [await full_id("memory", one, starting) or one for one in given]

    if as_json or settings.dsn is None or all(len(one) < MIN_PREFIX for one in given):
        return list(given)
    try:
        return asyncio.run(look_up())
    except RecordError:
        return list(given)


def no_such_memory(tenant: str, given: str) -> str:
    """What is said of an id that no memory has."""
    short = f" (a prefix needs {MIN_PREFIX} characters)" if len(given) < MIN_PREFIX else ""
    return f"no memory of {tenant!r} has the id {given!r}, nor one that begins so{short}"
