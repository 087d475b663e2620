"""The cost of a stopped Postgres for a reply: its p50 against the p50 of a profile without a timeline.

    python -m tests.bench.postgres_away [--rounds 5] [--questions 40]

Both are asked of one worker, one query at a time, in turns of so many questions over so many rounds; the ratio is
of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from orion_recall.client import RecallClient
from orion_recall.profile.cascade import NoAnswer
from orion_recall.profile.reading import dump_profile
from orion_recall.profile.watch import loaded_profiles
from tests.acceptance.processes import running_engines, start_worker, store_and_wait


def profiles(folder: Path) -> None:
    """reflect.v1 and the same without its timeline."""
    folder.mkdir()
    shipped = loaded_profiles(None)["reflect.v1"].profile
    reflect = shipped.model_copy(update={"no_answer": NoAnswer()})  # nobody need have told of what is asked
    bare = reflect.model_copy(update={"profile": "bare.v1", "enable_sql_timeline": False})
    for profile in (reflect, bare):
        (folder / f"{profile.profile}.yaml").write_text(dump_profile(profile), "utf-8")


async def turn(client: RecallClient, profile: str, outcome: str, questions: int) -> list[float]:
    """Milliseconds of one turn's replies."""
    took: list[float] = []
    for number in range(questions):
        began = time.perf_counter()
        reply = await client.recall(f"where is crate {number} of {uuid4().hex[:8]}?", profile=profile, options={})
        took.append((time.perf_counter() - began) * 1000)
        assert reply.bundle.stats.outcome == outcome, reply.bundle.stats
    return took


async def run(rounds: int, questions: int) -> None:
    """Engines, one worker, Postgres stopped, both profiles in turns."""
    async with running_engines() as (engines, folder):
        profiles(folder / "profiles")
        worker = await start_worker(engines, folder / "a", ORION_PROFILES_DIR=str(folder / "profiles"))
        await store_and_wait(engines, worker)
        await engines.postgres.stop()
        away: list[float] = []
        bare: list[float] = []
        async with RecallClient.connect(engines.redis_url) as client:
            for _ in range(rounds):
                away += await turn(client, "reflect.v1", "degraded", questions)
                bare += await turn(client, "bare.v1", "ok", questions)
        with_away, without = statistics.median(away), statistics.median(bare)
        print(f"Postgres stopped: p50 {with_away:.2f} ms, slowest {max(away):.2f} ms")
        print(f"no timeline:      p50 {without:.2f} ms, slowest {max(bare):.2f} ms")
        print(f"ratio of the p50s: {with_away / without:.2f} (to reach: at most 1.2)")
        await engines.postgres.start()
        await worker.stop()


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=40, help="of every turn")
    read = parser.parse_args(arguments)
    if read.rounds < 1 or read.questions < 1:
        parser.error("at least one round of one question")
    return read


def main() -> None:
    """Read the arguments, run, report."""
    options = read_options()
    asyncio.run(run(options.rounds, options.questions))


if __name__ == "__main__":
    main()
