"""The console inside `up`, loaded only where it is asked for: its packages are an extra."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from orion_recall.cli.serving.status import read_status
from orion_recall.settings import Settings


def load_console() -> Any:
    """The module that runs the console; ModuleNotFoundError where its packages are not installed."""
    return importlib.import_module("orion_recall.console.server")


@asynccontextmanager
async def console_beside(settings: Settings, *, wanted: bool) -> AsyncGenerator[str | None]:
    """The console for the block, where it is wanted; gives its address."""
    if not wanted:
        yield None
        return
    async with load_console().running_console(settings, read_status) as url:
        yield url
