"""Faults that are done to a running service: each ends with everything in its place again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable

from orion_recall.bus.connect import connect
from orion_recall.engines.engine import Engine
from tests.chaos.place import Place
from tests.stand_ins.small_disk import fill

Fault = Callable[[Place, random.Random], Awaitable[None]]
_CLAIMED_AFTER_S = 5.0
_WRONG_S = 3600.0


async def kill(place: Place, rng: random.Random) -> None:
    """A worker dies and is started again."""
    name = rng.choice(sorted(place.workers))
    await place.kill(name)
    await place.start(name)


async def process_killed(place: Place, rng: random.Random) -> None:
    """One process of a worker that has several dies, and is replaced by its parent."""
    name = rng.choice(sorted(place.workers))
    await place.kill_process(name, rng.choice(place.pids(name)))


async def pause(place: Place, rng: random.Random) -> None:
    """A worker, or one process of it, sleeps until others have taken its entries, and wakes up."""
    pid = rng.choice(place.pids(rng.choice(sorted(place.workers))))
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(_CLAIMED_AFTER_S + rng.uniform(0.5, 3.0))
    finally:
        os.kill(pid, signal.SIGCONT)


async def bus_restart(place: Place, rng: random.Random) -> None:
    """The bus is stopped for a moment."""
    await _restart(place.engines.valkey, rng)


async def _restart(engine: Engine, rng: random.Random) -> None:
    await engine.stop()
    await asyncio.sleep(rng.uniform(0.2, 3.0))
    await engine.start()


async def bus_killed(place: Place, _: random.Random) -> None:
    """The bus dies and is started again by its keeper."""
    await place.kill_engine("valkey")


async def record_restart(place: Place, rng: random.Random) -> None:
    """Postgres is stopped for a moment."""
    await _restart(place.engines.postgres, rng)


async def record_killed(place: Place, _: random.Random) -> None:
    """Postgres dies with all its sessions and is started again by its keeper."""
    await place.kill_engine("postgres")


async def groups_lost(place: Place, _: random.Random) -> None:
    """Somebody destroys the consumer groups of queries and of stores."""
    async with connect(place.engines.redis_url) as redis:
        for stream in ("recall.query.v1", "memory.store.v1"):
            await redis.xgroup_destroy(stream, "orion-recall")


async def wrong_clock(place: Place, rng: random.Random) -> None:
    """A worker is stopped, and started on a machine whose clock is an hour wrong; there it stays."""
    name = rng.choice(sorted(place.workers))
    await place.stop(name)
    await place.start(name, CHAOS_CLOCK_AHEAD_S=str(rng.choice((-_WRONG_S, _WRONG_S))))


async def disk_full(place: Place, rng: random.Random) -> None:
    """Another program takes all the disk under a worker's copies, and later makes room again.

    It may take it between the look at what is free and the write to a mapped file, which ends the process: such a
    worker is started again, as its keeper does.
    """
    assert place.small_disk is not None
    filler = place.small_disk / "of-another"
    await asyncio.to_thread(fill, filler, leaving=0)
    try:
        await asyncio.sleep(rng.uniform(3.0, 10.0))
    finally:
        filler.unlink()
    for name, worker in [*place.workers.items()]:
        if worker.running.process.poll() == -signal.SIGBUS:
            await place.start(name)


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "process killed": process_killed,
    "pause": pause,
    "bus restart": bus_restart,
    "bus killed": bus_killed,
    "record restart": record_restart,
    "record killed": record_killed,
    "groups lost": groups_lost,
    "wrong clock": wrong_clock,
    "disk full": disk_full,
}
