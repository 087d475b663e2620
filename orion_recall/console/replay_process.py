"""A replay that the console started: `orion-recall decisions replay` as a process, one at a time, ended with us.

Its report goes to `replays` in the data folder under a name of ours, which says whose it is, and only when it is
whole. The text of the profile is in a private folder for as long as it runs.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from orion_recall.atomic_file import whole_file
from orion_recall.engines.launch import __file__ as launcher
from orion_recall.engines.replay_folders import delete_left, replay_folder
from orion_recall.settings import Settings
from orion_recall.tasks import cancel, errors_logged

log = logging.getLogger("orion_recall.console")

FOLDER = "replays"
_NICE = 10
_STOP_S = 5.0
_TOLD_CHARS = 2000
_NAME_CHARS = 80


@dataclass(slots=True, kw_only=True)
class Replay:
    """A replay: the text of the profile that is tried, on the decisions of these ids.

    `tenant` is the only one that they may be of, None: any. One that has ended has the name of its report, or the
    words of its error.
    """

    profile: str
    text: str
    ids: Sequence[str]
    tenant: str | None
    as_of: Literal["decision", "now"]
    redact: bool
    began: datetime = field(default_factory=partial(datetime.now, UTC))
    report: str = ""
    error: str = ""

    @property
    def seconds(self) -> int:
        return round((datetime.now(UTC) - self.began).total_seconds())

    def is_seen_by(self, tenant: str | None) -> bool:
        """Whether whoever sees this tenant alone may see and stop it; None: who sees all."""
        return tenant in (None, self.tenant)


def is_report_seen_by(name: str, tenant: str | None) -> bool:
    """The same for a report, by its name."""
    return tenant is None or _mark_of(tenant) in name


def _mark_of(tenant: str | None) -> str:
    return "" if tenant is None else f"-{sha256(tenant.encode()).hexdigest()[:32]}-"


class Replaying:
    """Runs replays, one at a time. `running` is the one that runs, `last` the one that ended last."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self.is_stopping = False
        self.running: Replay | None = None
        self.last: Replay | None = None

    def start(self, wanted: Replay) -> bool:
        """Start it, unless one runs: then False."""
        if self.running is not None:
            return False
        self.running, self.is_stopping = wanted, False
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

    async def _run(self, replay: Replay) -> None:
        replay.error = "it failed"
        try:
            with errors_logged("a replay that the console started"):
                replay.error = await self._to_its_end(replay)
        finally:
            self.running, self.last = None, replay

    async def _to_its_end(self, replay: Replay) -> str:
        """Why there is no report; "" where there is one."""
        data_dir = self._settings.data_dir.resolve()
        folder = contextlib.ExitStack()
        try:
            (data_dir / FOLDER).mkdir(parents=True, exist_ok=True)
            private = await asyncio.to_thread(folder.enter_context, replay_folder(data_dir))
            return await self._reported(replay, private, data_dir / FOLDER)
        except OSError as failed:
            return f"it cannot be run: {failed.strerror or failed}"
        finally:
            await asyncio.to_thread(folder.close)
            await asyncio.to_thread(delete_left, data_dir)  # of a process that had to be killed

    async def _reported(self, replay: Replay, private: Path, reports: Path) -> str:
        made, said = private / "report.json", private / "said.txt"
        self._process = process = await _started(_options(replay, private), made, said, self._settings)
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
        whose = _mark_of(replay.tenant) or "-"
        replay.report = f"{replay.began:%Y%m%d-%H%M%S}{whose}{replay.profile[:_NAME_CHARS]}.json"
        with whole_file(reports / replay.report) as file:
            file.write(made.read_bytes())
        return ""


def _options(replay: Replay, private: Path) -> list[str]:
    profile, ids = private / f"{replay.profile}.yaml", private / "ids.txt"
    profile.write_text(replay.text, "utf-8")
    ids.write_text("".join(f"{one}\n" for one in replay.ids), "utf-8")
    options = [f"--profile={profile}", f"--ids={ids}", f"--sample={len(replay.ids)}", "--profile-of=any"]
    options += [f"--as-of={replay.as_of}", "--json"]
    options += [f"--tenant={replay.tenant}"] if replay.tenant is not None else []
    return options + (["--redact"] if replay.redact else [])


async def _started(options: Sequence[str], made: Path, said: Path, settings: Settings) -> Process:
    made.touch(0o600)
    with made.open("wb") as out, said.open("wb") as words:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(signal.SIGKILL)), "-"),
            *(sys.executable, "-m", "orion_recall", "decisions", "replay", *options),
            stdin=DEVNULL,
            stdout=out,
            stderr=words,
            env=_environment(settings),
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
    given = {name: value for name, value in own.items() if value is not None}
    return others | {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in given.items()
    }


def _why(made: Path, said: Path) -> str:
    try:
        return str(json.loads(made.read_text("utf-8"))["error"]["message"])[:_TOLD_CHARS]
    except (ValueError, KeyError, TypeError):
        return said.read_text("utf-8", "replace").strip()[-_TOLD_CHARS:]
