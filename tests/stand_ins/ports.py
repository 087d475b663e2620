"""Ports of loopback for servers that must be told theirs, and whether a server's process lives."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path

_FIRST, _STEP = 15_000, 16
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody by itself.

    A port that the system chose may be given to another process as soon as it is let go: before the server listens
    there, or while a test has stopped it. Each process of a parallel run has ports of its own.
    """
    for port in _own_ports():
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


@cache
def _own_ports() -> Iterator[int]:
    """Those of this process, below the ephemeral ones; again and again, by chance for runs beside this one."""
    below = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32_768
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _STEP
    ports = list(range(_FIRST + worker, below, _STEP))
    assert ports, f"{_EPHEMERAL} leaves no ports above {_FIRST}"
    random.SystemRandom().shuffle(ports)
    return cycle(ports)


def is_alive(pid: int) -> bool:
    """Whether the process runs: one that has ended and was not waited for does not (proc(5))."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
