"""Runs workers until a signal: the first one waits for messages in flight, the second one ends them at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from orion_recall.bus.connect import without_secrets
from orion_recall.cli.connect.addresses import dsn_without_secrets
from orion_recall.cli.output import console, for_people, print_json, say
from orion_recall.cli.signals import StopSignals
from orion_recall.foreground import tune_for_serving
from orion_recall.serving.processes.further_copies import folders_of
from orion_recall.serving.processes.plans import plans_of
from orion_recall.serving.processes.supervisor import Ready, Supervisor, WorkerProcess
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from orion_recall.tasks import cancel

Extractor = Annotated[
    Literal["light", "spacy", "llm"] | None,
    typer.Option(
        "--extractor",
        help="What finds names and statements: rules, spaCy, or a language model at ORION_LLM_URL (default: "
        "ORION_EXTRACTOR).",
    ),
]

_POSITIONS = ("index_position", "graph_position")
_OF_EACH = ("instance", "pid", "data_dir", *_POSITIONS, "broken", "health_url")


async def serve(service: Service, signals: StopSignals, announce: Callable[[], None]) -> None:
    """Serves until the first signal; `announce` is called once queries are being taken."""
    ready = asyncio.Event()
    serving = asyncio.create_task(service.serve(ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        if ready.is_set():
            tune_for_serving()
            signals.gently, signals.reload = service.stop, service.reload_profiles
            announce()
        await serving
    finally:
        await cancel(waiting, serving)


async def serve_several(
    settings: Settings,
    count: int,
    given: Mapping[str, str],
    signals: StopSignals,
    announce: Callable[[Mapping[str, Any]], None],
) -> None:
    """Runs the workers until the first signal; `announce` is called once all take queries.

    `given` are variables for all of them. SettingsError or WorkersFailed when one cannot be started.
    """
    supervisor = Supervisor(plans_of(settings, count, given), WorkerProcess.start)
    async with folders_of(settings, count):
        signals.gently, signals.reload = supervisor.stop, supervisor.reload
        await supervisor.run(lambda workers: announce(ready_of_all(workers)))


def given_variables(**settings: str | None) -> dict[str, str]:
    """Settings that a worker is to have beside the environment, as variables; without those that are None."""
    return {f"ORION_{name.upper()}": value for name, value in settings.items() if value is not None}


def ready_of(service: Service) -> dict[str, Any]:
    """The first line of a worker."""
    settings, opened = service.settings, service.opened
    return {
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


def say_ready(headline: str, ready: Mapping[str, Any], *further: str, as_json: bool) -> None:
    """That it runs: as one JSON line, or for people a headline, a line for each thing, and further lines."""
    if not for_people(as_json=as_json):
        print_json(ready, one_line=True)
        return
    copies = ", ".join(
        f"{kind.partition('_')[0]} at {ready[kind]}" for kind in _POSITIONS if ready[kind] is not None
    )
    console().print(Text(headline), soft_wrap=True)
    for what, value in (
        ("bus", ready["bus_url"]),
        ("Postgres", ready["postgres_dsn"]),
        ("data", ready["data_dir"]),
        ("copies", copies),
        ("profiles", ", ".join(ready["profiles"])),
        ("health", ready["health_url"] and f"{ready['health_url']}/ready"),
        ("console", ready.get("console_url")),
    ):
        if value:
            say(f"  {what}", value)
    for number, worker in enumerate(ready.get("workers", ()), start=1):
        at = (f"process {worker['pid']}", worker["instance"], worker["health_url"])
        say(f"  worker {number}", ", ".join(filter(None, at)))
    for part, why in ready["broken"].items():
        say("  broken", part, why)
    for line in further:
        console().print(Text(line), soft_wrap=True)
