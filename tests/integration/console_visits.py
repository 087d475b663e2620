"""Visits of a console over a running service, for tests: the browser, the token of its forms, and a decision."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from executor import until

from orion_recall.cli.serving.status import read_status
from orion_recall.client import RecallClient
from orion_recall.console.server import running_console
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service


@asynccontextmanager
async def console(service: Service, **settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser without script, on the console of the service."""
    changed = service.settings.changed(console_port=0, **settings)
    async with running_console(changed, read_status) as url, httpx.AsyncClient(base_url=url, timeout=30) as browser:
        yield browser


def form_token(page: str) -> str:
    """The token that the forms of a page carry."""
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found, page
    return found[1]


async def decided(database: Connection, client: RecallClient, query: str, **options: Any) -> str:
    """The id of a decision that the log has."""
    reply = await client.recall(query, options=options)
    name = reply.bundle.stats.decision_id
    assert name is not None
    await is_logged(database, name)
    return name


async def is_logged(database: Connection, name: str) -> None:
    """Return once the log has the decision."""

    async def is_there() -> bool:
        return bool(await database.fetchval("SELECT 1 FROM orion_recall.recall_decisions WHERE id = $1", name))

    await until(is_there, "a decision in the log")
