"""Opens the record for commands, starting embedded Postgres if needed; and progress bars."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from pydantic import SecretStr
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from orion_recall.cli.output import notes
from orion_recall.engines.embedded import EmbeddedEngines, read_addresses
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.valkey import ValkeyServer
from orion_recall.settings import Settings


async def with_record(settings: Settings, stack: contextlib.AsyncExitStack, *, new: bool = False) -> Settings:
    """The settings with a record: that of a folder which `up` has filled and left is started for the while.

    With `new` also that of a folder which is still empty.
    """
    if settings.dsn is not None or not (new or _has_record(settings)):
        return settings
    engines = await _started(settings, stack, with_bus=False)
    return settings.changed(postgres_dsn=SecretStr(engines.postgres_dsn))


async def with_engines(settings: Settings, stack: contextlib.AsyncExitStack) -> tuple[Settings, bool]:
    """The settings with record and bus, and whether the bus is the data folder's own.

    Engines of a folder that `up` has filled and left are started for the while, the bus as well.
    """
    if settings.dsn is None and _has_record(settings):
        has_bus = settings.redis_url is None and (settings.data_dir / ValkeyServer.name).is_dir()
        engines = await _started(settings, stack, with_bus=has_bus)
        changes = {"redis_url": SecretStr(engines.redis_url)} if has_bus else {}
        return settings.changed(postgres_dsn=SecretStr(engines.postgres_dsn), **changes), has_bus
    running = read_addresses(settings.data_dir)
    is_own = running is not None and running.redis_url is not None and running.redis_url == settings.bus_url
    return settings, is_own


def _has_record(settings: Settings) -> bool:
    """A link to a database that is gone counts as one: to start it says what to do."""
    folder = settings.data_dir / PostgresServer.name
    return folder.is_symlink() or folder.is_dir()


async def _started(settings: Settings, stack: contextlib.AsyncExitStack, *, with_bus: bool) -> EmbeddedEngines:
    return await stack.enter_async_context(
        EmbeddedEngines.start(
            settings.data_dir,
            valkey=with_bus,
            postgres_schema=settings.postgres_schema,
            min_free_bytes=settings.min_free_bytes,
        )
    )


@contextlib.contextmanager
def bars(*columns: ProgressColumn) -> Generator[Progress]:
    """Bars on standard error, where that is a terminal."""
    shown = notes()
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as made:
        yield made


def share_columns() -> tuple[ProgressColumn, ...]:
    """The columns of a bar whose end is known."""
    return (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())


@contextlib.contextmanager
def progress(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar that is told how much is done, and of how much."""
    with bars(*share_columns()) as shown:
        bar = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)
