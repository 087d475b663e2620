"""Processes that start at once: a server loads program and stand-ins a single time, and every process is its fork.

To load one costs a second or two of processor time, and the tests start some two hundred. What comes of a fork is a
process like any other: arguments, environment, streams, signals and exit code of its own.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path

_START_S = 60.0
_CONTEXT = multiprocessing.get_context("forkserver")
_LOADED = "tests.stand_ins.loaded"
_CONTEXT.set_forkserver_preload([_LOADED])


@dataclass(frozen=True, slots=True)
class Forked:
    """A process that was forked, with what the tests use of a `subprocess.Popen`."""

    process: BaseProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        """Its exit code, or the negative number of the signal that killed it; None while it runs."""
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """What `poll` says once it has ended. TimeoutError when it has not in that many seconds."""
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout} s")
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(
    module: str, arguments: Sequence[str], *, environment: Mapping[str, str], out: Path, err: Path
) -> Forked:
    """A running process that calls the module's `main` with these arguments as its command line.

    It leads a session of its own and has nothing on standard input. If it still runs when the tests end, it is told
    to terminate.
    """
    process = _CONTEXT.Process(
        target=_enter, args=(module, list(arguments), dict(environment), out, err), daemon=True
    )
    process.start()
    return Forked(process)


def forked_server(module: str, *arguments: str, **environment: str) -> tuple[Forked, str]:
    """A running process, and the first line that it says: a server's address, once it listens."""
    with tempfile.NamedTemporaryFile("r") as out:
        given = os.environ | environment
        process = forked(module, arguments, environment=given, out=Path(out.name), err=Path(os.devnull))
        until = time.monotonic() + _START_S
        while not (line := out.read()).endswith("\n"):
            assert process.poll() is None, f"{module} ended before it listened"
            assert time.monotonic() < until, f"{module} does not listen"
            out.seek(0)
            time.sleep(0.01)
    return process, line.strip()


def _enter(module: str, arguments: list[str], environment: dict[str, str], out: Path, err: Path) -> None:
    os.setsid()
    # Ignored in what a shell runs in the background, and so inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    sys.stdout, sys.stderr = _stream(1, out), _stream(2, err, line_buffering=True)
    import_module(_LOADED)  # it is loaded, unless that failed: of which the server says nothing
    import_module(module).main()


def _stream(number: int, file: Path, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """The stream as Python opens it on a file: in blocks, but for errors."""
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(opened, number)
    os.close(opened)
    binary = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(binary, encoding="utf-8", line_buffering=line_buffering)
