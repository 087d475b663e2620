"""How many arenas malloc makes for many threads, in a process of its own."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

_THREADS = 12
_PROGRAM = f"""
import ctypes, threading
from orion_recall.serving.processes.malloc_arenas import bound_malloc_arenas
print(bound_malloc_arenas(), flush=True)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.fdopen.restype, libc.malloc_info.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
all_there = threading.Barrier({_THREADS})
def allocate():
    libc.malloc(5000)
    all_there.wait()
threads = [threading.Thread(target=allocate) for _ in range({_THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
out = libc.fdopen(1, b"w")
libc.malloc_info(0, out)
libc.fflush(out)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such arenas")


def arenas(**environment: str) -> tuple[bool, int]:
    """Whether the number was bounded, and how many there are with many threads."""
    known = {
        name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={**known, **environment}, capture_output=True, text=True, check=True
    )
    bounded, _, told = done.stdout.partition("\n")
    return bounded == "True", len(re.findall(r"<heap nr=", told))


def test_a_process_with_many_threads_has_two_arenas() -> None:
    assert arenas() == (True, 2)


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_a_number_that_the_environment_sets_stays(name: str) -> None:
    value = {"MALLOC_ARENA_MAX": "4", "GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}[name]

    assert arenas(**{name: value}) == (False, 4)
