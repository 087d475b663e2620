"""Several workers of one command: their processes run until a signal, and one first line tells of all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orion_recall.cli.serving.run import StopSignals
from orion_recall.serving.processes.further_copies import folders_of
from orion_recall.serving.processes.plans import plans_of
from orion_recall.serving.processes.supervisor import Ready, Supervisor, WorkerProcess
from orion_recall.settings import Settings

_OF_EACH = ("instance", "pid", "data_dir", "index_position", "graph_position", "broken", "health_url")


def given_variables(**settings: str | None) -> dict[str, str]:
    """Settings that a worker is to have beside the environment, as variables; without those that are None."""
    return {f"ORION_{name.upper()}": value for name, value in settings.items() if value is not None}


async def serve_several(
    settings: Settings,
    count: int,
    given: Mapping[str, str],
    signals: StopSignals,
    announce: Callable[[Sequence[Ready]], None],
) -> None:
    """Runs the workers until the first signal; `announce` is called once all take queries.

    `given` are variables for all of them. SettingsError or WorkersFailed when one cannot be started.
    """
    supervisor = Supervisor(plans_of(settings, count, given), WorkerProcess.start)
    async with folders_of(settings, count):
        signals.gently, signals.reload = supervisor.stop, supervisor.reload
        await supervisor.run(announce)


def ready_of_all(workers: Sequence[Ready]) -> dict[str, Any]:
    """What the first worker said, with the parent's process id, the least positions, and `workers`: each one's own.

    `broken` names the worker before the part.
    """
    first = {name: value for name, value in workers[0].items() if name != "instance"}
    least = {kind: _least([one[kind] for one in workers]) for kind in ("index_position", "graph_position")}
    broken = {f"{one['instance']} {part}": why for one in workers for part, why in one["broken"].items()}
    each = [{name: one[name] for name in _OF_EACH} for one in workers]
    return first | least | {"pid": os.getpid(), "broken": broken, "workers": each}


def _least(positions: Sequence[int | None]) -> int | None:
    known = [position for position in positions if position is not None]
    return min(known, default=None)
