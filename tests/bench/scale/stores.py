"""Stores of one size: filled in bulk in a data folder, with their engines running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.evaluation.run_stores import private_settings
from orion_recall.settings import Settings

TOLD = "scale.json"
"""The file beside the stores: database identity, moment of the last memory, sessions of both tenants."""
_DONE = "filled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Running engines on filled stores. `sessions` are those that go on, by tenant; times are epoch seconds."""

    size: int
    data: Path
    engines: EmbeddedEngines
    now: float
    sessions: Mapping[str, Sequence[str]]
    filled_s: float | None


def settings_of(folder: Path, dsn: str) -> Settings:
    """Those of stores in the folder, with the default model, whatever the environment says of other stores."""
    return private_settings(Settings.read(), folder).changed(postgres_dsn=SecretStr(dsn))


@contextlib.asynccontextmanager
async def open_stores(size: int, folder: Path, say: Callable[[str], None]) -> AsyncGenerator[Stores]:
    """The stores in the folder, filled unless they are; `filled_s` is None where they were."""
    data = folder / "data"
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    async with EmbeddedEngines.start(data) as engines:
        took: float | None = None
        if not (data / _DONE).exists():
            began = time.perf_counter()
            await _fill(size, data, engines.postgres_dsn, say)
            (data / _DONE).touch()
            took = time.perf_counter() - began
        told = json.loads((data / TOLD).read_text("utf-8"))
        yield Stores(
            size=size, data=data, engines=engines, now=told["now"], sessions=told["sessions"], filled_s=took
        )


async def _fill(size: int, data: Path, dsn: str, say: Callable[[str], None]) -> None:
    arguments = (str(size), str(time.time()), str(data), dsn)
    say(f"{size:,} memories: the record")
    await _child("record", *arguments)
    say(f"{size:,} memories: graph and index")
    async with asyncio.TaskGroup() as both:
        both.create_task(_child("graph", *arguments))
        both.create_task(_child("index", *arguments))


async def _child(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.scale.child", *arguments, stdin=DEVNULL, stdout=DEVNULL
    )
    try:
        if await process.wait():
            raise RuntimeError(f"the {arguments[0]} was not filled: see above")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def disk_mib(folder: Path) -> float:
    """What the files of a folder take on the disk; of a file with holes what is there."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_blocks * 512
    return total / (1 << 20)
