"""A worker as a process: `orion-recall worker`, started anew, that ends with the process that started it.

Not forked: a child of a process with engines' and loops' threads would have their locks and none of the threads. A
new process shares with the others what the kernel shares by itself: code of libraries, and files that are mapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from typing import Any

from orion_recall.engines.launch import __file__ as launcher
from orion_recall.serving.processes.plans import WorkerPlan

# What is run with `python -m`.
PROGRAM = "orion_recall"
# Tells a worker that its parent looks after the folders of all.
ONE_OF_SEVERAL = "--one-of-several"
_LONGEST_LINE = 1 << 20
_TOLD_CHARS = 2000


class WorkerProcess:
    """A running worker. It must be started on a thread that lives as long as it: the event loop's.

    `error` is what it said on standard output of why it could not start, "" when it said nothing.
    """

    def __init__(self, plan: WorkerPlan, process: Process) -> None:
        self.plan, self._process = plan, process
        self.error = ""

    @classmethod
    async def start(cls, plan: WorkerPlan) -> WorkerProcess:
        """Starts it; its log goes where this process's does.

        A session of its own keeps a Ctrl-C in the terminal from reaching it before its parent. SIGKILL is what the
        kernel sends it when the parent is gone: then its folder is free at once for the next start, and the bus
        hands what it had taken to others.
        """
        line = (sys.executable, "-m", PROGRAM, "worker", "--json", ONE_OF_SEVERAL)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(signal.SIGKILL)), "-"),
            *line,
            stdin=DEVNULL,
            stdout=PIPE,
            env={**os.environ, **plan.environment},
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        return cls(plan, process)

    @property
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    async def ready(self) -> Mapping[str, Any] | None:
        """What it says once it takes queries; None when it ends before that, and `error` says why."""
        assert self._process.stdout is not None
        first = await self._process.stdout.readline()
        with contextlib.suppress(ValueError):
            told: Any = json.loads(first)
            if "ready" in told:
                return told
        self.error = _why(first + await self._process.stdout.read())
        return None

    async def wait(self) -> int:
        """The exit code, once it has ended; negative: the signal that ended it."""
        return await self._process.wait()

    def terminate(self) -> None:
        """The first time: it takes nothing more, answers what it has, and ends. The second time: it ends."""
        self._send(signal.SIGTERM)

    def reload(self) -> None:
        """It reads its profiles again."""
        self._send(signal.SIGHUP)

    def kill(self) -> None:
        """Ends it at once, also one that was stopped by a signal."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


def _why(said: bytes) -> str:
    """The message of an error in JSON, as every command prints it; else the text."""
    text = said.decode("utf-8", "replace").strip()
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:_TOLD_CHARS]
