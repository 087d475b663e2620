"""The program, with every address that Python looks up or connects to written to the file in `WATCHED_ADDRESSES`.

Engines that run as threads or as child processes are not watched: they are given the addresses that they listen on.
"""

from __future__ import annotations

import os
import sys

from orion_recall.cli import main as program
from tests.stand_ins import patient_program

_WATCHED = frozenset(("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"))


def main() -> None:
    """The program's own entry point; it ends as that one does."""
    told = os.open(os.environ["WATCHED_ADDRESSES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in _WATCHED:
            place = arguments[-1] if event in ("socket.connect", "socket.sendto") else arguments[0]
            os.write(told, f"{event} {place!r}\n".encode())

    patient_program.install()
    sys.addaudithook(hook)
    program.main()
