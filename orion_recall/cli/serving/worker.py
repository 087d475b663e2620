"""`orion-recall worker`: one worker, or several processes, on engines that run elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from orion_recall.cli.connect.addresses import bus_of
from orion_recall.cli.memory.options import given
from orion_recall.cli.output import JsonFlag
from orion_recall.cli.serving.run import (
    Extractor,
    given_variables,
    ready_of,
    say_ready,
    serve,
    serve_several,
    stop_signals,
)
from orion_recall.serving.preflight import check_settings
from orion_recall.serving.processes.further_copies import folders_of
from orion_recall.serving.processes.plans import MOST, parents_log_file
from orion_recall.serving.processes.process import ONE_OF_SEVERAL
from orion_recall.serving.service import Service
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
            headline = f"worker {settings.instance} takes queries (process {os.getpid()})"
            ended = "Ctrl-C: it answers what it has taken, and stops."
            await serve(service, signals, lambda: say_ready(headline, ready_of(service), ended, as_json=as_json))


async def _run_several(settings: Settings, count: int, given: Mapping[str, str], *, as_json: bool) -> None:
    await check_settings(settings)
    with stop_signals() as signals:
        await serve_several(settings, count, given, signals, lambda ready: _announce(count, ready, as_json=as_json))


def _announce(count: int, ready: Mapping[str, Any], *, as_json: bool) -> None:
    headline = f"{count} workers take queries (process {ready['pid']})"
    say_ready(headline, ready, "Ctrl-C: they answer what they have taken, and stop.", as_json=as_json)
