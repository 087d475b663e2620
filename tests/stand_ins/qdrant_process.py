"""The Qdrant stand-in as a process that a test starts, stops, freezes and starts again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGSTOP

_ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class QdrantStandIn:
    """One stand-in; it comes back at the address it had, with nothing in it."""

    key: str | None = None
    url: str = ""
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Running, and answering at `url`."""
        environment = os.environ | {"PYTHONPATH": str(_ROOT)}
        if self.key is not None:
            environment["QDRANT__SERVICE__API_KEY"] = self.key
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "tests.stand_ins.qdrant_rest", port]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the Qdrant stand-in did not start"

    def kill(self) -> None:
        """Gone at once, with everything in it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        """Connections are accepted, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        assert self._process is not None
        self._process.send_signal(SIGCONT)


@contextmanager
def qdrant_stand_in(key: str | None = None) -> Generator[QdrantStandIn]:
    """A running one, gone at the end of the block."""
    one = QdrantStandIn(key)
    one.start()
    try:
        yield one
    finally:
        one.kill()
