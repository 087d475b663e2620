"""The Qdrant stand-in as a process that a test starts, stops, freezes and starts again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from signal import SIGCONT, SIGSTOP

from tests.stand_ins.forked import Forked, forked_server
from tests.stand_ins.ports import free_port


@dataclass(slots=True)
class QdrantStandIn:
    """One stand-in; it comes back at the address it had, with nothing in it."""

    key: str | None = None
    url: str = ""
    _process: Forked | None = field(default=None, repr=False)

    def start(self) -> None:
        key = {} if self.key is None else {"QDRANT__SERVICE__API_KEY": self.key}
        port = self.url.rpartition(":")[2] or str(free_port())
        self._process, self.url = forked_server("tests.stand_ins.qdrant_rest", port, **key)

    def kill(self) -> None:
        """Gone at once, with everything in it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
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
