"""A replay that the console started: `orion-recall decisions replay` as a process, one at a time, ended with us.

Its report goes to `replays` in the data folder under a name of ours, and only when it is whole. The text of the
profile is in a private folder for as long as it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from orion_recall.engines.launch import __file__ as launcher
from orion_recall.engines.replay_folders import delete_left, replay_folder
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, errors_logged

log = logging.getLogger("orion_recall.console")

FOLDER = "replays"
_PROGRAM = "orion_recall"
_NICE = 10
_STOP_S = 5.0
_TOLD_CHARS = 2000
_NAME_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplay:
    """What is replayed: the text of the profile that is tried, on the decisions of these ids.

    `tenant` is the only one that they may be of, None: any.
    """

    profile: str
    text: str
    ids: Sequence[str]
    tenant: str | None
    as_of: Literal["decision", "now"]
    redact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedReplay:
    """A replay that runs, or that has ended: with the name of its report, or the words of its error."""

    wanted: WantedReplay
    began: datetime
    report: str = ""
    error: str = ""

    @property
    def seconds(self) -> int:
        """How long ago it began."""
        return round((datetime.now(UTC) - self.began).total_seconds())

    @property
    def file_name(self) -> str:
        """What its report is called."""
        return f"{self.began:%Y%m%d-%H%M%S}-{self.wanted.profile[:_NAME_CHARS]}.json"


class Replaying:
    """Runs replays, one at a time. `running` is the one that runs, `last` the one that ended last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.running: StartedReplay | None = None
        self.last: StartedReplay | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the running one was told to stop."""
        return self._stopped.is_set()

    def start(self, wanted: WantedReplay) -> bool:
        """Start it, unless one runs: then False."""
        if self.running is not None:
            return False
        self.running = StartedReplay(wanted=wanted, began=datetime.now(UTC))
        self._stopped.clear()
        self._task = asyncio.create_task(self._run(self.running))
        return True

    def stop(self) -> None:
        """Have the running one end soon; without one nothing happens."""
        self._stopped.set()

    async def close(self) -> None:
        """End the running one, and return when it is gone."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2 * _STOP_S)
            await cancel(self._task)

    async def _run(self, started: StartedReplay) -> None:
        name, error = "", "it failed"
        try:
            with errors_logged("a replay that the console started"):
                error = await self._to_its_end(started)
                name = "" if error else started.file_name
        finally:
            self.running = None
            self.last = StartedReplay(wanted=started.wanted, began=started.began, report=name, error=error)

    async def _to_its_end(self, started: StartedReplay) -> str:
        """Why there is no report; "" where there is one."""
        data_dir = self._settings.data_dir.resolve()
        folder = contextlib.ExitStack()
        try:
            (data_dir / FOLDER).mkdir(parents=True, exist_ok=True)
            private = await asyncio.to_thread(folder.enter_context, replay_folder(data_dir))
            return await self._reported(started, private, data_dir / FOLDER)
        except OSError as failed:
            return f"it cannot be run: {failed.strerror or failed}"
        finally:
            await asyncio.to_thread(folder.close)
            await asyncio.to_thread(delete_left, data_dir)  # of a process that had to be killed

    async def _reported(self, started: StartedReplay, private: Path, reports: Path) -> str:
        made, said = private / "report.json", private / "said.txt"
        line = _command(started.wanted, private)
        process = await _started(line, made, said, _environment(self._settings))
        try:
            code = await self._ended(process)
        finally:
            await _killed(process)
        if self._stopped.is_set():
            return "it was stopped"
        if code != 0:
            return _why(made, said) or f"it ended with {code}"
        _move(made, reports / started.file_name)
        return ""

    async def _ended(self, process: Process) -> int:
        """Its exit code; told to stop it gets SIGINT, and has a moment for that."""
        ending, told = asyncio.create_task(process.wait()), asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait([ending, told], return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
                await asyncio.wait([ending], timeout=_STOP_S)
            return ending.result() if ending.done() else -signal.SIGKILL
        finally:
            await cancel(ending, told)


def _command(wanted: WantedReplay, private: Path) -> list[str]:
    """The program with its arguments; the profile and the ids are files of the private folder."""
    profile, ids = private / f"{wanted.profile}.yaml", private / "ids.txt"
    profile.write_text(wanted.text, "utf-8")
    ids.write_text("".join(f"{one}\n" for one in wanted.ids), "utf-8")
    options = [f"--profile={profile}", f"--ids={ids}", f"--sample={len(wanted.ids)}", "--profile-of=any"]
    options += [f"--as-of={wanted.as_of}", "--json"]
    options += [f"--tenant={wanted.tenant}"] if wanted.tenant is not None else []
    options += ["--redact"] if wanted.redact else []
    return [sys.executable, "-m", _PROGRAM, "decisions", "replay", *options]


async def _started(line: Sequence[str], made: Path, said: Path, environment: Mapping[str, str]) -> Process:
    """The process; a session of its own keeps a Ctrl-C in the terminal from it, and the kernel ends it with us."""
    with made.open("wb") as out, said.open("wb") as words:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(signal.SIGKILL)), "-"),
            *line,
            stdin=DEVNULL,
            stdout=out,
            stderr=words,
            env=environment,
            start_new_session=True,
        )
    with contextlib.suppress(OSError):  # it may have ended
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    return process


async def _killed(process: Process) -> None:
    """End it, and what it has started, if it still runs."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _environment(settings: Settings) -> Mapping[str, str]:
    """The environment, with the addresses that the console uses: some may be from its command line."""
    own: dict[str, object] = {
        "ORION_DATA_DIR": settings.data_dir.resolve(),
        "ORION_POSTGRES_DSN": settings.postgres_dsn,
        "ORION_POSTGRES_SCHEMA": settings.postgres_schema,
        "ORION_REDIS_URL": settings.redis_url,
        "ORION_PREFIX": settings.prefix,
        "ORION_PROFILES_DIR": settings.profiles_dir and settings.profiles_dir.resolve(),
    }
    # A secret that is also named as a file would be refused.
    taken = {*own, *(f"{name}_FILE" for name in own)}
    others = {name: value for name, value in os.environ.items() if name.upper() not in taken}
    return others | {name: _plain(value) for name, value in own.items() if value is not None}


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _why(made: Path, said: Path) -> str:
    """Why the replay failed: the message of its JSON error, else the end of what it printed."""
    try:
        return str(json.loads(made.read_text("utf-8"))["error"]["message"])[:_TOLD_CHARS]
    except (ValueError, KeyError, TypeError):
        return said.read_text("utf-8", "replace").strip()[-_TOLD_CHARS:]


def _move(made: Path, target: Path) -> None:
    """The report at its place, whole or not at all: the private folder may be on another disk."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.touch(0o600)
        part.write_bytes(made.read_bytes())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
