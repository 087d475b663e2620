"""`orion-recall up` and `worker`: one worker or several, with embedded engines or on those that run elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from orion_recall.bus.connect import without_secrets
from orion_recall.cli.addresses import bus_of, dsn_without_secrets
from orion_recall.cli.console import load_console
from orion_recall.cli.output import document, for_people, print_json, show
from orion_recall.cli.serving.status import read_status
from orion_recall.cli.signals import StopSignals, stop_signals
from orion_recall.decisions.log import let_analysts_in
from orion_recall.engines.disk_space import DiskSpace
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.foreground import tune_for_serving
from orion_recall.postgres.schema import migrate
from orion_recall.serving.service import Service, check_settings
from orion_recall.serving.several_workers import MOST, ONE_OF_SEVERAL, Ready, Supervisor, folders_of, plans_of
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr

_POSITIONS = ("index_position", "graph_position")
_OF_EACH = ("instance", "pid", "data_dir", *_POSITIONS, "broken", "health_url")


async def serve(
    settings: Settings, count: int, announce: Callable[[Mapping[str, Any]], None], *, signals: StopSignals,
    given: Mapping[str, str] | None = None, disks: Sequence[DiskSpace] = (), own_folders: bool = True,
) -> None:  # fmt: skip
    """Serves with so many workers until the first signal; `announce` gets the first line once they take queries.

    `given` are variables for all of several. SettingsError or WorkersFailed when one cannot be started.
    """
    folders = folders_of(settings, count) if own_folders else contextlib.nullcontext()
    if count > 1:
        supervisor = Supervisor(plans_of(settings, count, given or {}))
        async with folders:
            signals.gently, signals.reload = supervisor.stop, supervisor.reload
            await supervisor.run(lambda workers: announce(ready_of_all(workers)))
        return
    async with folders, Service.start(settings, disks=disks) as service, service.serving() as serving:
        if not serving.done():
            tune_for_serving()
            signals.gently, signals.reload = service.stop, service.reload_profiles
            announce(ready_of(service))
        await serving


def ready_of(service: Service) -> dict[str, Any]:
    settings, opened = service.settings, service.opened
    return {
        "ready": True, "instance": settings.instance, "bus_url": without_secrets(settings.bus_url or ""),
        "postgres_dsn": dsn_without_secrets(settings.dsn) if settings.dsn else None,
        "data_dir": str(settings.data_dir.resolve()), "pid": os.getpid(),
        "index_position": opened.index.position if opened.index else None,
        "graph_position": opened.graph.position if opened.graph else None,
        "profiles": sorted(service.profiles), "broken": opened.broken, "health_url": service.observer.url,
    }  # fmt: skip


def ready_of_all(workers: Sequence[Ready]) -> dict[str, Any]:
    """What the first worker said, with the parent's process id, the least positions, and `workers`: each one's own.

    `broken` names the worker before the part.
    """
    first = {name: value for name, value in workers[0].items() if name != "instance"}
    known = {kind: [one[kind] for one in workers if one[kind] is not None] for kind in _POSITIONS}
    least = {kind: min(positions, default=None) for kind, positions in known.items()}
    broken = {f"{one['instance']} {part}": why for one in workers for part, why in one["broken"].items()}
    each = [{name: one[name] for name in _OF_EACH} for one in workers]
    return first | least | {"pid": os.getpid(), "broken": broken, "workers": each}


def say_ready(headline: str, ready: Mapping[str, Any], *further: str) -> None:
    """That it runs: as one JSON line, or for people a headline, what is known, and further lines."""
    if not for_people():
        print_json(ready, one_line=True)
        return
    told = {name: value for name, value in ready.items() if name not in ("ready", "pid")}
    show(ready, headline, *document(told), *further)


def up(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder for all data (default: ORION_DATA_DIR or .orion)."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=MOST, help="Workers to run, each a process.")] = 1,
    console: Annotated[bool, typer.Option("--console", help="Also serve the console.")] = False,
) -> None:
    """Run everything here: bus, Postgres, index, graph and a worker, or several.

    Runs until Ctrl-C or SIGTERM. An engine whose address is in the environment (ORION_REDIS_URL,
    ORION_POSTGRES_DSN, ORION_QDRANT_URL, ORION_SPARQL_URL) is used where it is; the others are started on the
    data folder. Without a terminal, or with --json, its first line, written once queries are being taken, is one
    JSON object, and its log is JSON lines on standard error. With --workers 2 two processes share the queries,
    each with an index and a graph in memory; one that dies five times in a row ends the command with exit code 1.

    Example: `orion-recall up --data .orion`, then in another terminal:
    `orion-recall ask "What is wrong with the crane?" --data .orion`
    """
    if console:
        load_console()  # what is missing is said before anything else
    settings = Settings.read() if data is None else Settings.read(data_dir=data)
    log_to_stderr(settings.log_level)
    asyncio.run(_up(settings, workers, console=console))


async def _up(settings: Settings, workers: int, *, console: bool) -> None:
    await check_settings(settings)
    if console:
        load_console().check_console(settings)  # before engines start
    engines = EmbeddedEngines.start(
        settings.data_dir, valkey=settings.redis_url is None, postgres=settings.postgres_dsn is None,
        postgres_schema=settings.postgres_schema, bus_memory_bytes=settings.bus_memory_bytes,
        min_free_bytes=settings.min_free_bytes, workers=workers,
    )  # fmt: skip
    with stop_signals() as signals:
        async with engines as running:
            running.supervise()
            found, variables = await _with_addresses(settings, running)
            beside = load_console().running_console(found, read_status) if console else contextlib.nullcontext()
            async with beside as console_url:
                # The embedded address holds no secret, and is to be used.
                dsn = running.postgres_dsn if "postgres" in running.pids else dsn_without_secrets(found.dsn or "")
                own = {"postgres_dsn": dsn, "data_dir": str(running.data_dir), "engines": running.pids}
                own |= {} if console_url is None else {"console_url": console_url}

                def announce(ready: Mapping[str, Any]) -> None:
                    folder = shlex.quote(str(running.data_dir))
                    ask = f'  orion-recall ask "What is wrong with the crane?" --data {folder}'
                    further = ("", "Ask from another terminal:", ask, "Ctrl-C stops everything.")
                    say_ready(f"orion-recall is up (process {ready['pid']})", {**ready, **own}, *further)

                await serve(found, workers, announce, signals=signals, given=variables, disks=running.disks)


async def _with_addresses(settings: Settings, engines: EmbeddedEngines) -> tuple[Settings, dict[str, str]]:
    """The settings with the addresses of what was started here; and these as variables."""
    started: dict[str, str] = {}
    if settings.redis_url is None:
        started["redis_url"] = engines.redis_url
    if settings.postgres_dsn is None:
        started["postgres_dsn"] = engines.postgres_dsn
        await migrate(engines.postgres_dsn)  # before the first query: its timeline reads a view
        await let_analysts_in(engines.postgres_dsn)
    changed = settings.changed(**{name: SecretStr(value) for name, value in started.items()})
    return changed, {f"ORION_{name.upper()}": value for name, value in started.items()}


def worker(
    processes: Annotated[int, typer.Option(min=1, max=MOST, help="Workers to run, each a process.")] = 1,
    is_one_of_several: Annotated[bool, typer.Option(ONE_OF_SEVERAL, hidden=True)] = False,
) -> None:
    """Run a worker, or several, on the engines that the environment names.

    ORION_REDIS_URL is the bus (required), ORION_POSTGRES_DSN the record and decision log, ORION_DATA_DIR the
    folder of this worker's own index and graph, unless they are servers. SIGTERM or Ctrl-C: it takes nothing
    more, answers what it holds and ends; a second one ends it at once. Output and --processes are as of
    `orion-recall up`.

    Example: `ORION_REDIS_URL=redis://bus:6379 ORION_POSTGRES_DSN=postgresql://orion@db/orion
    ORION_DATA_DIR=/var/lib/orion orion-recall worker`
    """
    settings = Settings.read()
    bus_of(settings)
    log_to_stderr(settings.log_level)
    told = f"{processes} workers take" if processes > 1 else f"worker {settings.instance} takes"

    def announce(ready: Mapping[str, Any]) -> None:
        ended = "Ctrl-C: what was taken is answered, and then it stops."
        say_ready(f"{told} queries (process {ready['pid']})", ready, ended)

    async def run() -> None:
        await check_settings(settings)
        with stop_signals() as signals:
            await serve(settings, processes, announce, signals=signals, own_folders=not is_one_of_several)

    asyncio.run(run())
