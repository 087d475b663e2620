"""Runs a worker until a signal: the first one waits for messages in flight, the second one ends it at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from orion_recall.cli.output import console, say
from orion_recall.foreground import tune_for_serving
from orion_recall.serving.service import Service
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.service")

Extractor = Annotated[
    Literal["light", "spacy", "llm"] | None,
    typer.Option(
        "--extractor",
        help="What finds names and statements: rules, spaCy, or a language model at ORION_LLM_URL (default: "
        "ORION_EXTRACTOR).",
    ),
]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class StopSignals:
    """Counts stop signals; the first one calls `gently`, or cancels the task without it.

    `reload` is what SIGHUP does.
    """

    task: asyncio.Task[object]
    asked: int = 0
    gently: Callable[[], None] | None = None
    reload: Callable[[], None] | None = None
    at_terminal: bool = field(default_factory=lambda: os.isatty(0))

    def ask(self) -> None:
        """One signal more."""
        self.asked += 1
        if self.asked == 1 and self.gently is not None:
            log.info("stopping; once more to stop at once")
            self.gently()
        else:
            self.task.cancel()

    def hang_up(self) -> None:
        """SIGHUP: read the profiles again. From a terminal that has been closed it means to stop, as ever."""
        if self.at_terminal and not os.isatty(0):
            self.ask()
        elif self.reload is not None:
            self.reload()


@contextlib.contextmanager
def stop_signals() -> Generator[StopSignals]:
    """Takes SIGINT and SIGTERM for the block: one ends it without an error, a second one by CancelledError.

    SIGHUP is taken too, for reading the profiles again.
    """
    task = asyncio.current_task()
    assert task is not None
    signals = StopSignals(task)
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.ask)
    loop.add_signal_handler(signal.SIGHUP, signals.hang_up)
    try:
        yield signals
    except asyncio.CancelledError:
        if signals.asked != 1:
            raise
        task.uncancel()
    finally:
        for number in (*_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


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


def say_ready(headline: str, ready: Mapping[str, Any]) -> None:
    """What runs, for people: `headline`, then a line each for bus, Postgres, data, copies, profiles and health."""
    health = f"{ready['health_url']}/ready" if ready["health_url"] else None
    position = {kind: ready[f"{kind}_position"] for kind in ("index", "graph")}
    copies = ", ".join(f"{kind} at {at}" for kind, at in position.items() if at is not None)
    console().print(Text(headline), soft_wrap=True)
    for what, value in (
        ("bus", ready["bus_url"]),
        ("Postgres", ready["postgres_dsn"]),
        ("data", ready["data_dir"]),
        ("copies", copies),
        ("profiles", ", ".join(ready["profiles"])),
        ("health", health),
        ("console", ready.get("console_url")),
    ):
        if value:
            say(f"  {what}", value)
    for number, worker in enumerate(ready.get("workers", ()), start=1):
        at = (f"process {worker['pid']}", worker["instance"], worker["health_url"])
        say(f"  worker {number}", ", ".join(filter(None, at)))
    for part, why in ready["broken"].items():
        say("  broken", part, why)
