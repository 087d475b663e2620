"""What a dead Postgres costs a reply: the p50 with Postgres stopped against the p50 without a timeline at all.

    python -m tests.bench.postgres_away

Both are asked of one worker, one query at a time, in turns of forty over five rounds; the ratio is of one run.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from uuid import uuid4

from orion_recall.client import RecallClient
from orion_recall.profile.reading import dump_profile
from orion_recall.service import loaded_profiles
from tests.acceptance.processes import running_engines, start_worker, store_and_wait

ROUNDS, A_TURN = 5, 40


def profiles(folder: Path) -> None:
    """reflect.v1 and the same without its timeline."""
    folder.mkdir()
    reflect = loaded_profiles(None)["reflect.v1"].profile
    bare = reflect.model_copy(update={"profile": "bare.v1", "enable_sql_timeline": False})
    for profile in (reflect, bare):
        (folder / f"{profile.profile}.yaml").write_text(dump_profile(profile), "utf-8")


async def turn(client: RecallClient, profile: str, outcome: str) -> list[float]:
    """Milliseconds of one turn's replies."""
    took: list[float] = []
    for number in range(A_TURN):
        began = time.perf_counter()
        reply = await client.recall(f"where is crate {number} of {uuid4().hex[:8]}?", profile=profile, options={})
        took.append((time.perf_counter() - began) * 1000)
        assert reply.bundle.stats.outcome == outcome, reply.bundle.stats
    return took


async def run() -> None:
    """Engines, one worker, Postgres stopped, both profiles in turns."""
    async with running_engines() as (engines, folder):
        profiles(folder / "profiles")
        worker = await start_worker(engines, folder / "a", ORION_PROFILES_DIR=str(folder / "profiles"))
        await store_and_wait(engines, worker)
        await engines.postgres.stop()
        away: list[float] = []
        bare: list[float] = []
        async with RecallClient.connect(engines.redis_url) as client:
            for _ in range(ROUNDS):
                away += await turn(client, "reflect.v1", "degraded")
                bare += await turn(client, "bare.v1", "ok")
        with_away, without = statistics.median(away), statistics.median(bare)
        print(f"Postgres stopped: p50 {with_away:.2f} ms, slowest {max(away):.2f} ms")
        print(f"no timeline:      p50 {without:.2f} ms, slowest {max(bare):.2f} ms")
        print(f"ratio of the p50s: {with_away / without:.2f} (to reach: at most 1.2)")
        await engines.postgres.start()
        await worker.stop()


if __name__ == "__main__":
    asyncio.run(run())
