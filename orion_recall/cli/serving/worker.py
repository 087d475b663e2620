"""`orion-recall worker`: one worker, or several processes, on engines that run elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from orion_recall.bus.connect import without_secrets
from orion_recall.cli.connect.addresses import bus_of, dsn_without_secrets
from orion_recall.cli.memory.options import given
from orion_recall.cli.output import JsonFlag, console, for_people, print_json
from orion_recall.cli.serving.run import Extractor, say_ready, serve, stop_signals
from orion_recall.cli.serving.several import given_variables, ready_of_all, serve_several
from orion_recall.serving.processes.further_copies import folders_of
from orion_recall.serving.processes.plans import MOST, parents_log_file
from orion_recall.serving.processes.supervisor import ONE_OF_SEVERAL, Ready
from orion_recall.serving.service import Service, check_settings
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def worker(
    processes: Annotated[
        int,
        typer.Option(min=1, max=MOST, help="Workers to run, each a process with its own index and graph."),
    ] = 1,
    extractor: Extractor = None,
    as_json: JsonFlag = False,
    is_one_of_several: Annotated[bool, typer.Option(ONE_OF_SEVERAL, hidden=True)] = False,
) -> None:
    """Run a worker, or several, on the engines that the environment names.

    ORION_REDIS_URL is the bus (required), ORION_POSTGRES_DSN the record and decision log, ORION_DATA_DIR the
    folder of this worker's own index and graph, unless they are servers (ORION_QDRANT_URL,
    ORION_SPARQL_URL). SIGTERM or Ctrl-C: it takes nothing more, answers what it holds and ends; a second one ends
    it at once. On a terminal it writes lines for people; elsewhere, or with --json, its first line, written once
    queries are being taken, is one JSON object, and its log is JSON lines on standard error.

    With --processes 2 two workers share the queries, for more than one core: see `orion-recall up --help`.

    Example: `ORION_REDIS_URL=redis://bus:6379 ORION_POSTGRES_DSN=postgresql://orion@db/orion
    ORION_DATA_DIR=/var/lib/orion orion-recall worker`
    """
    settings = Settings.read(**given(extractor=extractor))
    bus_of(settings)
    if processes > 1:
        log_to_stderr(settings.log_level, parents_log_file(settings.log_file))
        asyncio.run(_run_several(settings, processes, given_variables(extractor=extractor), as_json=as_json))
        return
    log_to_stderr(settings.log_level, settings.log_file)
    asyncio.run(_run(settings, as_json=as_json, is_one_of_several=is_one_of_several))


async def _run(settings: Settings, *, as_json: bool, is_one_of_several: bool) -> None:
    await check_settings(settings)
    folders = contextlib.nullcontext() if is_one_of_several else folders_of(settings, 1)
    with stop_signals() as signals:
        async with folders, Service.start(settings) as service:
            await serve(service, signals, lambda: _announce(service, as_json=as_json))


async def _run_several(settings: Settings, count: int, given: Mapping[str, str], *, as_json: bool) -> None:
    await check_settings(settings)
    with stop_signals() as signals:
        await serve_several(
            settings, count, given, signals, lambda ready: _announce_several(ready, as_json=as_json)
        )


def _announce(service: Service, *, as_json: bool) -> None:
    settings, opened = service.settings, service.opened
    ready: dict[str, Any] = {
        "ready": True,
        "instance": settings.instance,
        "bus_url": without_secrets(settings.bus_url or ""),
        "postgres_dsn": dsn_without_secrets(settings.dsn) if settings.dsn else None,
        "data_dir": str(settings.data_dir.resolve()),
        "pid": os.getpid(),
        "index_position": opened.index.position if opened.index else None,
        "graph_position": opened.graph.position if opened.graph else None,
        "profiles": sorted(service.profiles),
        "broken": opened.broken,
        "health_url": service.observer.url,
    }
    if not for_people(as_json=as_json):
        print_json(ready, one_line=True)
        return
    say_ready(f"worker {ready['instance']} takes queries (process {ready['pid']})", ready)
    console().print("Ctrl-C: it answers what it has taken, and stops.")


def _announce_several(workers: Sequence[Ready], *, as_json: bool) -> None:
    ready = ready_of_all(workers)
    if not for_people(as_json=as_json):
        print_json(ready, one_line=True)
        return
    say_ready(f"{len(workers)} workers take queries (process {ready['pid']})", ready)
    console().print("Ctrl-C: they answer what they have taken, and stop.")
