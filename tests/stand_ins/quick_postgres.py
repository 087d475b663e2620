"""Embedded Postgres as the tests start it: a copy of a cluster that was made once, and never flushed to disk.

`initdb` costs most of a second of processor time, a copy a tenth of that, and a run starts some sixty clusters.
What is acknowledged still outlives the server, however its process ends: only a loss of power would lose it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from orion_recall.engines import postgres
from orion_recall.engines.postgres import PostgresServer
from orion_recall.engines.postgres_folder import PostgresBinaries, private_id
from tests.stand_ins.kept import kept_folder

_MAKE = "_make_cluster"
_AS_SHIPPED: dict[str, str] = dict(vars(postgres)["_OPTIONS"])
_MADE_AS_SHIPPED: Any = vars(PostgresServer)[_MAKE]
_QUICK = _AS_SHIPPED | {"fsync": "off", "full_page_writes": "off"}


def install() -> None:
    """From now on every embedded Postgres of this process is a quick one."""
    setattr(postgres, "_OPTIONS", _QUICK)  # noqa: B010  a private name, and meant
    setattr(PostgresServer, _MAKE, _copy_cluster)


def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one test, embedded Postgres is made and run as users have it."""
    monkeypatch.setattr(postgres, "_OPTIONS", _AS_SHIPPED)
    monkeypatch.setattr(PostgresServer, _MAKE, _MADE_AS_SHIPPED)


async def _copy_cluster(server: PostgresServer, binaries: PostgresBinaries, lock_fd: int) -> None:
    """A copy beside its place, moved there: complete or not there at all."""
    place = cast("Path", vars(server)["_cluster"])
    kept = _kept_cluster(binaries)
    if kept.exists():
        await asyncio.to_thread(_copy, kept, place)
        return
    await _MADE_AS_SHIPPED(server, binaries, lock_fd)
    await asyncio.to_thread(_copy, place, kept)


def _kept_cluster(binaries: PostgresBinaries) -> Path:
    """Where the cluster of these programs is kept; a copy of them in another folder has the same."""
    program = (binaries.bin_dir / "postgres").stat()
    owner = private_id() if os.geteuid() == 0 else os.geteuid()
    name = f"postgres-{binaries.major}-{program.st_size}-{program.st_mtime_ns}-of-{owner}"
    return kept_folder(name) / "cluster"


def _copy(source: Path, target: Path) -> None:
    """A copy with modes and owners; of two processes that make it at a time the first wins."""
    unfinished = target.with_name(f"new-{os.getpid()}-{id(source)}")
    subprocess.run(["cp", "-a", source, unfinished], check=True)
    try:
        unfinished.rename(target)
    except OSError:
        shutil.rmtree(unfinished)
        if not target.exists():
            raise
