"""The program `orion-recall` as a person at a terminal has it: a command line, two streams, an exit code.

Every command is a process. That the program also loads by itself is seen where a test says `from_scratch`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tests.stand_ins.forked import forked

_LONGEST_S = 90.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which is one JSON document."""
        return json.loads(self.out)


class Child(Protocol):
    """What is used of a process, whether it was forked or is a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: signal.Signals, /) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Program:
    """The program with a data folder and a home of its own; nothing of the caller's settings reaches it.

    Another `module` has a `main` that stands for the program's.
    """

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    own_interpreter: bool = False
    interpreter: str = sys.executable
    module: str = "orion_recall.cli.main"

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.folder / "data"

    def with_settings(self, **settings: str) -> Program:
        """The same program with these variables set."""
        return replace(self, settings={**self.settings, **settings})

    def from_scratch(self) -> Program:
        """The same program, each command with an interpreter of its own that loads it: slow."""
        return replace(self, own_interpreter=True)

    def with_interpreter(self, interpreter: Path) -> Program:
        """The same program, each command run by another interpreter: slow."""
        return replace(self, own_interpreter=True, interpreter=str(interpreter))

    def run(self, *arguments: str) -> Finished:
        """Runs a command to its end."""
        with self.started(*arguments) as running:
            return running.end()

    @contextmanager
    def started(self, *arguments: str) -> Generator[Running]:
        """A command that runs while the block does; what still runs at its end is killed."""
        running = self.start(*arguments)
        try:
            yield running
        finally:
            running.process.kill()
            running.process.wait()

    def start(self, *arguments: str) -> Running:
        """A command that runs. Who starts it ends it."""
        out, err = self.folder / f"out-{time.monotonic_ns()}", self.folder / f"err-{time.monotonic_ns()}"
        for file in (out, err):
            file.touch()
        if not self.own_interpreter:
            return Running(
                forked(self.module, arguments, environment=self._environment(), out=out, err=err), out, err
            )
        with out.open("w") as stdout, err.open("w") as stderr:
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                # So a shell starts what it runs in the background, and so the command would inherit it.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            line = [self.interpreter, "-m", "orion_recall", *arguments]
            process = subprocess.Popen(
                line, env=self._environment(), stdout=stdout, stderr=stderr, start_new_session=True
            )
        return Running(process, out, err)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORION_", "XDG_"))}
        own = {"ORION_DATA_DIR": str(self.data), "XDG_STATE_HOME": str(self.folder / "state")}
        return {**kept, **own, **self.settings}


@dataclass(frozen=True, slots=True)
class Running:
    """A command that is running."""

    process: Child
    out_file: Path
    err_file: Path

    @property
    def out(self) -> str:
        """What it has said so far."""
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        """What it has logged so far."""
        return self.err_file.read_text()

    def ready(self) -> Any:
        """Its first line, once it is there: a JSON object."""
        self.wait_until(lambda: "\n" in self.out, "its first line")
        first = self.out.splitlines()[0]
        assert first != "{", self.out  # an error, on several lines
        return json.loads(first)

    def wait_until(self, predicate: Callable[[], bool], what: str) -> None:
        """Returns once the predicate holds; AssertionError when it does not, or the command has ended before."""
        until = time.monotonic() + _LONGEST_S
        while not predicate():
            assert self.process.poll() is None, f"ended before {what}:\n{self.out}{self.err}"
            assert time.monotonic() < until, f"waited for {what}:\n{self.out}{self.err}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def end(self) -> Finished:
        """How it ended, once it has."""
        code = self.process.wait(_LONGEST_S)
        return Finished(code, self.out, self.err)


def processes_on(folder: Path) -> list[str]:
    """The command lines of processes that were started on a folder, engines and all."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and "pytest" not in line:
            found.append(line)
    return found
