"""Stores filled with synthetic memories: index, graph and record, without the bus, kept for the next run.

They are kept under /tmp by size, corpus and the code that decides what is written. The memories end at a fixed
moment, which is the clock of every question.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import orion_recall
from orion_recall.cli.output import notes
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.engines.lock import FolderLock
from orion_recall.settings import Settings
from tests.bench.fill_child import SESSIONS, settings_of

_DONE = "filled"
# The code that decides what is written for a memory.
_CODE = (
    "memory",
    "models",
    "index",
    "sources",
    "graph",
    "evaluation/fill.py",
    "evaluation/word_vectors.py",
    "contracts",
    "text",
)
_BENCH = ("corpus.py", "corpus_words.py", "fill_child.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledStores:
    """A running Postgres and the settings of the stores.

    To fill them took `seconds`, and `cpu_s` without Postgres's own; None where an earlier run has kept them.
    """

    size: int
    settings: Settings
    postgres_pid: int
    recent_sessions: Sequence[str]
    vectors: str
    seconds: float | None
    cpu_s: float | None


@contextlib.asynccontextmanager
async def open_filled(size: int, vectors: str, *, fresh: bool) -> AsyncGenerator[FilledStores]:
    """The stores of so many memories, filled unless they were kept; `fresh` fills them anew.

    `vectors` are those of `fill_child`.
    """
    kept = _kept_folder()
    data = kept / f"{size}-{vectors}-{_key()}"
    if fresh or not (data / _DONE).exists():
        for old in kept.glob(f"{size}-{vectors}-*"):  # of other code, or never finished
            if (lock := FolderLock.try_acquire(old)) is not None:  # else another run is using it
                lock.release()
                await asyncio.to_thread(shutil.rmtree, old)
    began, cpu_before = time.perf_counter(), _children_cpu_s()
    async with EmbeddedEngines.start(data, valkey=False) as engines:
        was_kept = (data / _DONE).exists()
        if not was_kept:
            await _fill(size, vectors, data, engines.postgres_dsn)
            (data / _DONE).touch()
        yield FilledStores(
            size=size,
            settings=settings_of(data, engines.postgres_dsn),
            postgres_pid=engines.pids["postgres"],
            recent_sessions=json.loads((data / SESSIONS).read_text("utf-8")),
            vectors=vectors,
            seconds=None if was_kept else time.perf_counter() - began,
            cpu_s=None if was_kept else _children_cpu_s() - cpu_before,
        )


async def _fill(size: int, vectors: str, data: Path, dsn: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes(), transient=True) as progress:

        async def fill(what: str, told: str) -> None:
            task = progress.add_task(told, total=size)
            arguments = (what, str(size), vectors, str(data), dsn)
            await _child(arguments, lambda done: progress.update(task, completed=done))

        async with asyncio.TaskGroup() as both:
            both.create_task(fill("index", f"index, vectors of the {vectors}"))
            both.create_task(fill("graph", "graph and record"))


async def _child(arguments: Sequence[str], done: Callable[[int], None]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.fill_child", *arguments, stdin=DEVNULL, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            done(int(line))
        if await process.wait():
            raise RuntimeError(f"the {arguments[0]} was not filled: see above")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _children_cpu_s() -> float:
    """CPU seconds of the processes that have ended, with those that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kept_folder() -> Path:
    """Directly in /tmp: as root, the database runs as another user who must reach its data."""
    folder = Path("/tmp") / f"orion-bench-filled-{os.geteuid()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} is somebody else's: delete it")
    return folder


def _key() -> str:
    """Of the code that decides what is written."""
    digest = hashlib.sha256()
    package, here = Path(orion_recall.__file__).parent, Path(__file__).parent
    for part in (*(package / name for name in _CODE), *(here / name for name in _BENCH)):
        for file in sorted((*part.rglob("*.py"), *part.rglob("*.sql"))) if part.is_dir() else (part,):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
