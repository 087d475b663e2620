"""Engines and workers of a trial, what is done to them, and what the record says in plain SQL."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import Connection
from orion_recall.shipped import shipped_folder
from tests.acceptance.processes import WorkerProcess, running_engines, start_worker
from tests.bench.command import say
from tests.chaos.caller import caller_on
from tests.stand_ins.small_disk import small_disk

QUERIES, STORES = "recall.query.v1", "memory.store.v1"
_BATCH = 100
_SMALL_BYTES = 1 << 30
_ODD = "tests.chaos.odd_worker"
_AGAIN = "takes queries again, as process"
# Tenths of a second: the kernel ends them with their parent.
_ORPHANS_AFTER = 50
# Those of processes.py, which are for tests, taken back: a trial is of the service as it is shipped.
_AS_SHIPPED = {
    "ORION_CLAIM_IDLE_MS": "5000",
    "ORION_REFRESH_MS": "1000",
    "ORION_DEADLINE_MS": "2000",
    "ORION_PROFILES_DIR": str(shipped_folder("profiles")),
}


@dataclass(slots=True)
class Place:
    """Engines, and workers that are ended with it; their logs stay until then.

    `small_disk` is the folder of worker "b", where a disk of its own was wanted and could be mounted. Each worker
    is the parent of `processes` of them where that is more than one; `orphans` counts those that outlived it.
    """

    engines: EmbeddedEngines
    folder: Path
    settings: dict[str, str] = field(default_factory=dict[str, str])
    workers: dict[str, WorkerProcess] = field(default_factory=dict[str, WorkerProcess])
    logs: list[Path] = field(default_factory=list[Path])
    small_disk: Path | None = None
    processes: int = 1
    orphans: int = 0

    async def start(self, name: str, **environment: str) -> WorkerProcess:
        """A worker that takes messages; of one name there is one at a time, and its folder stays."""
        given = _AS_SHIPPED | self.settings | environment
        worker = await start_worker(
            self.engines, self.folder / name, module=_ODD, processes=self.processes, **given
        )
        self.workers[name] = worker
        self.logs.append(worker.running.err_file)
        return worker

    async def kill(self, name: str) -> None:
        """SIGKILL, and wait until it is gone, with the processes that it has started."""
        below = self.pids(name)
        worker = self.workers.pop(name)
        worker.send(signal.SIGKILL)
        await worker.ended()
        for _ in range(_ORPHANS_AFTER):
            if not any(map(_runs, below)):
                return
            await asyncio.sleep(0.1)
        self.orphans += sum(map(_runs, below))

    def pids(self, name: str) -> list[int]:
        """The processes that answer for this worker: itself, or those that it has started."""
        pid = self.workers[name].running.process.pid
        return _children(pid) if self.processes > 1 else [pid]

    async def kill_process(self, name: str, pid: int) -> None:
        """SIGKILL to one of a worker's processes, and wait until another takes queries in its place."""
        log = self.workers[name].running
        before = log.err.count(_AGAIN)
        os.kill(pid, signal.SIGKILL)
        while log.err.count(_AGAIN) == before:
            assert log.process.poll() is None, f"it ended with its process:\n{log.err[-2000:]}"
            await asyncio.sleep(0.05)

    async def stop(self, name: str) -> int:
        """SIGTERM, and its exit code."""
        return await self.workers.pop(name).stop()

    async def kill_engine(self, name: str) -> None:
        """SIGKILL to an engine and all its processes; it is started again by who keeps it alive."""
        pid = self.engines.pids[name]
        for one in (pid, *(_children(pid) if name == "postgres" else ())):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while self.engines.pids.get(name) in (pid, None):
            await asyncio.sleep(0.05)

    def logged(self, words: str) -> int:
        """How often the workers' logs have these words."""
        return sum(log.read_text("utf-8", "replace").count(words) for log in self.logs)

    def logged_number(self, words: re.Pattern[str]) -> int:
        """The sum of the numbers that this pattern finds in the workers' logs."""
        return sum(int(found) for log in self.logs for found in words.findall(log.read_text("utf-8", "replace")))

    async def rows(self, sql: str, *arguments: object) -> list[Any]:
        """The rows of a statement, over a connection of its own."""
        async with self.sql() as connection:
            return list(await connection.fetch(sql, *arguments))

    @asynccontextmanager
    async def sql(self) -> AsyncGenerator[Connection]:
        opened: Any = await asyncpg.connect(self.engines.postgres_dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        try:
            yield cast("Connection", opened)
        finally:
            await cast("Any", opened).close()

    async def copies_caught_up(self, *, timeout_s: float = 900.0) -> bool:
        """Wait until the copies of all running workers have everything; False when they do not in time."""
        statement = "SELECT count(*) AS n FROM projections WHERE position >= (SELECT max(position) FROM outbox)"
        async with asyncio.timeout(timeout_s):
            while (await self.rows(statement))[0]["n"] < 2 * len(self.workers) * self.processes:
                await asyncio.sleep(0.2)
        return True


async def fill(place: Place, memories: Sequence[Mapping[str, Any]]) -> None:
    """Store them, and wait until the copies have them."""
    async with caller_on(place.engines.redis_url, STORES) as caller:
        for start in range(0, len(memories), _BATCH):
            sent = await caller.send({"memories": memories[start : start + _BATCH]})
            assert await caller.all_answered(stalled_s=120), "the memories were not stored"
            assert sent.answers[0][1] in ("stored", "unchanged"), sent.answers
    await place.copies_caught_up()
    say(f"{len(memories):,} memories are stored")


@asynccontextmanager
async def open_place(
    *, with_small_disk: bool = False, processes: int = 1, **settings: str
) -> AsyncGenerator[Place]:
    """Engines that are kept alive, in a folder of their own; all is ended and removed after the block."""
    async with running_engines(workers=2 * processes if processes > 1 else 1) as (engines, folder):
        engines.supervise()
        place = Place(engines, folder, settings, processes=processes)
        with _disk_of_b(folder) if with_small_disk else nullcontext(None) as place.small_disk:
            try:
                yield place
            finally:
                for worker in place.workers.values():
                    worker.send(signal.SIGCONT)
                    worker.send(signal.SIGKILL)
                for worker in place.workers.values():
                    await worker.ended()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    """Whether the process is there, and not only its end that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def _disk_of_b(folder: Path) -> Generator[Path | None]:
    own = folder / "b"
    own.mkdir()
    with small_disk(own, _SMALL_BYTES) as is_mounted:
        yield own if is_mounted else None
