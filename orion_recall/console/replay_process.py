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
from dataclasses import dataclass, replace
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
        return round((datetime.now(UTC) - self.began).total_seconds())

    @property
    def file_name(self) -> str:
        return f"{self.began:%Y%m%d-%H%M%S}-{self.wanted.profile[:_NAME_CHARS]}.json"


class Replaying:
    """Runs replays, one at a time. `running` is the one that runs, `last` the one that ended last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self.is_stopping = False
        self.running: StartedReplay | None = None
        self.last: StartedReplay | None = None

    def start(self, wanted: WantedReplay) -> bool:
        """Start it, unless one runs: then False."""
        if self.running is not None:
            return False
        self.running = StartedReplay(wanted=wanted, began=datetime.now(UTC))
        self.is_stopping = False
        self._task = asyncio.create_task(self._run(self.running))
        return True

    def stop(self) -> None:
        """Have the running one end soon: it gets SIGINT, and has a moment for that. Without one nothing happens."""
        self.is_stopping = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            asyncio.get_running_loop().call_later(_STOP_S, _kill, self._process)

    async def close(self) -> None:
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2 * _STOP_S)
            await cancel(self._task)

    async def _run(self, started: StartedReplay) -> None:
        error = "it failed"
        try:
            with errors_logged("a replay that the console started"):
                error = await self._to_its_end(started)
        finally:
            report = "" if error else started.file_name
            self.running, self.last = None, replace(started, report=report, error=error)

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
        self._process = process = await _started(line, made, said, _environment(self._settings))
        try:
            if self.is_stopping:
                self.stop()
            code = await process.wait()
        finally:
            self._process = None
            _kill(process)
            await process.wait()
        if self.is_stopping:
            return "it was stopped"
        if code != 0:
            return _why(made, said) or f"it ended with {code}"
        _move(made, reports / started.file_name)
        return ""


def _command(wanted: WantedReplay, private: Path) -> list[str]:
    profile, ids = private / f"{wanted.profile}.yaml", private / "ids.txt"
    profile.write_text(wanted.text, "utf-8")
    ids.write_text("".join(f"{one}\n" for one in wanted.ids), "utf-8")
    options = [f"--profile={profile}", f"--ids={ids}", f"--sample={len(wanted.ids)}", "--profile-of=any"]
    options += [f"--as-of={wanted.as_of}", "--json"]
    options += [f"--tenant={wanted.tenant}"] if wanted.tenant is not None else []
    options += ["--redact"] if wanted.redact else []
    return [sys.executable, "-m", _PROGRAM, "decisions", "replay", *options]


async def _started(line: Sequence[str], made: Path, said: Path, environment: Mapping[str, str]) -> Process:
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


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _environment(settings: Settings) -> Mapping[str, str]:
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
    try:
        return str(json.loads(made.read_text("utf-8"))["error"]["message"])[:_TOLD_CHARS]
    except (ValueError, KeyError, TypeError):
        return said.read_text("utf-8", "replace").strip()[-_TOLD_CHARS:]


def _move(made: Path, target: Path) -> None:
    part = target.with_name(f".{target.name}.part")
    try:
        part.touch(0o600)
        part.write_bytes(made.read_bytes())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
