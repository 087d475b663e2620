"""Plans: what each worker of several has of its own, as its part of the environment.

    .orion/index, .orion/graph              worker 1: the place of a worker that is alone
    .orion/workers/2/index, …/2/graph       worker 2

Everything else is the same for all: a worker reads the environment of the command that started it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orion_recall.errors import SettingsError
from orion_recall.serving.backends import has_own_process
from orion_recall.serving.observe.port import listening_socket
from orion_recall.settings import Settings

WORKERS = "workers"
MOST = 64
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One worker: its number from 1 on, its data folder, and the variables that are not as its parent's."""

    number: int
    data_dir: Path
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"worker {self.number}"


def plans_of(settings: Settings, count: int, given: Mapping[str, str]) -> list[WorkerPlan]:
    """A plan for each of `count` workers; `given` are variables for all of them.

    SettingsError when a health port cannot be had.
    """
    _check_ports(settings, count)
    return [
        WorkerPlan(
            number=number,
            data_dir=data_dir_of(settings.data_dir, number),
            environment={**given, **_own_variables(settings, number, count)},
        )
        for number in range(1, count + 1)
    ]


def data_dir_of(data_dir: Path, number: int) -> Path:
    whole = data_dir.resolve()
    return whole if number == 1 else whole / WORKERS / str(number)


def further_folders(data_dir: Path) -> Iterator[tuple[int, Path]]:
    """The folders of further workers that are there, with their numbers."""
    place = data_dir.resolve() / WORKERS
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.name.isdecimal() and str(int(path.name)) == path.name and path.is_dir():
            yield int(path.name), path


def log_file_of(file: Path, number: int) -> Path:
    """The log file of that worker: NAME.log of the first one, NAME-2.log of the second."""
    return file if number == 1 else file.with_name(f"{file.stem}-{number}{file.suffix}")


def parents_log_file(file: Path | None) -> Path | None:
    """The log file of the process that starts the workers: no two processes can rotate one file."""
    return file and file.with_name(f"{file.stem}-parent{file.suffix}")


def _own_variables(settings: Settings, number: int, count: int) -> dict[str, str]:
    found = {
        "ORION_DATA_DIR": str(data_dir_of(settings.data_dir, number)),
        # By default as many processors as there are decide: one worker does not know of the others.
        "ORION_INDEX_PROCESS": "yes" if has_own_process(settings, count) else "no",
    }
    if "instance" in settings.model_fields_set and number > 1:
        found["ORION_INSTANCE"] = f"{settings.instance}-{number}"
    if settings.log_file is not None:
        found["ORION_LOG_FILE"] = str(log_file_of(settings.log_file, number))
    if settings.health_port:  # 0: each takes a free one
        found["ORION_HEALTH_PORT"] = str(settings.health_port + number - 1)
    return found


def _check_ports(settings: Settings, count: int) -> None:
    if not settings.health_port:
        return
    last = settings.health_port + count - 1
    if last > _LAST_PORT:
        raise SettingsError(f"ORION_HEALTH_PORT: {count} workers need ports {settings.health_port} to {last}")
    for port in range(settings.health_port, last + 1):
        listening_socket(settings.health_host, port).close()
