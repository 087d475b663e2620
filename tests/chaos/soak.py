"""Half of what a worker can answer, for long: nothing grows after the first minutes.

Memory, descriptors and threads of the worker and the process of its index, connections to the bus and to
Postgres, lengths of streams and sizes of tables are read every few seconds, from outside. What is logged of each
recall grows by design, until its retention removes it: it is told for each recall.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from tests.bench.command import say
from tests.bench.corpus import corpus, questions
from tests.bench.measure import process_tree, tree_memory_mib
from tests.chaos.caller import Caller, caller_on
from tests.chaos.place import QUERIES, STORES, Place, fill, open_place
from tests.chaos.trial import Promise, Trial, at_most

_WARM_MINUTES, _CAPACITY_S = 5.0, 8.0
# A row for each recall or use: what retention is for.
_BY_DESIGN = ("recall_decisions", "recall.decision.v1", "recall.reply.v1")
# Beyond what it was: in parts of it, and at least so much of each kind.
_SHARE = 0.1
_SLACK = {"memory MiB": 24, "descriptors": 8, "threads": 4, "connections": 4, "stream": 50, "table": 1 << 20}
Sample = Mapping[str, float]


async def run(*, minutes: float, memories: int) -> Trial:
    """The trial: what there is after five minutes, or a third of a shorter trial, against what is there at last."""
    began = time.monotonic()
    async with open_place(ORION_DEADLINE_MS="60000") as place:
        worker = await place.start("a")
        pid = worker.running.process.pid
        await fill(place, corpus(memories, now=time.time()).memories)
        async with (
            caller_on(place.engines.redis_url, QUERIES) as asked,
            caller_on(place.engines.redis_url, STORES) as stored,
            connect(place.engines.redis_url) as redis,
        ):
            answered, passed_s = await asked.in_closed_loop(questions(seed=5), _CAPACITY_S)
            per_s = len(answered) / passed_s
            say(f"the capacity is {per_s:.1f}/s; half of it for {minutes:g} minutes")
            load = asyncio.create_task(_load(asked, stored, per_s / 2))
            samples: list[tuple[float, Sample]] = []
            began_load = time.monotonic()
            try:
                while (passed := time.monotonic() - began_load) < minutes * 60:
                    samples.append((passed, await _sample(place, redis, pid)))
                    await asyncio.sleep(min(5.0, minutes * 60 / 30))
                    assert not load.done(), load.exception()
            finally:
                load.cancel()
            await asked.all_answered(stalled_s=30)
            unanswered, recalls = len(asked.waiting), len(asked.sent)
    warm_s = min(_WARM_MINUTES, minutes / 3) * 60
    early, late = _around([one for at, one in samples if at >= warm_s][:10]), _around([s for _, s in samples][-10:])
    return Trial(
        name="soak",
        size=f"{minutes:g} minutes, {per_s / 2:.1f} queries a second ({recalls:,}), {memories:,} memories",
        promises=[at_most("queries without a reply", unanswered, 0), *_grown(early, late)],
        figures={
            f"after {warm_s / 60:.1f} minutes": early,
            "at the end": late,
            "bytes of the decision log for each recall": round(
                late.get("table recall_decisions", 0) / max(1, recalls)
            ),
        },
        seconds=time.monotonic() - began,
    )


async def _load(asked: Caller, stored: Caller, per_s: float) -> None:
    """Queries at a steady rate, and one memory again and again, which changes nothing."""
    texts, began, done = questions(seed=6), time.monotonic(), 0
    memory = {"id": "again", "text": "Crate 7 of the lighthouse was painted green."}
    while True:
        await asyncio.sleep(max(0.0, began + done / per_s - time.monotonic()))
        await asked.send({"fragment": next(texts), "options": {}})
        done += 1
        if done % 20 == 0:
            await stored.send({"memories": [memory]})


async def _sample(place: Place, redis: Redis, pid: int) -> Sample:
    processes = process_tree(pid)
    found: dict[str, float] = {
        "memory MiB": tree_memory_mib(pid),
        "descriptors": sum(process.num_fds() for process in processes),
        "threads": sum(process.num_threads() for process in processes),
        "connections to the bus": len(cast("list[Any]", await cast("Any", redis).client_list())),
    }
    rows = await place.rows("SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()")
    found["connections to Postgres"] = rows[0]["n"]
    for row in await place.rows(
        "SELECT relname, pg_total_relation_size(oid) AS bytes FROM pg_class WHERE relkind = 'r' "
        "AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' "
        "AND nspname <> 'information_schema')"
    ):
        found[f"table {row['relname']}"] = row["bytes"]
    async for key in cast("Any", redis).scan_iter(_type="stream"):
        name = cast("bytes", key).decode().partition(":")[0]
        found[f"stream {name}"] = found.get(f"stream {name}", 0) + int(await redis.xlen(key))
    return found


def _around(samples: Sequence[Sample]) -> dict[str, float]:
    """The median of each."""
    names = dict.fromkeys(name for one in samples for name in one)
    return {name: statistics.median(one.get(name, 0) for one in samples) for name in names}


def _grown(early: Sample, late: Sample) -> list[Promise]:
    found: list[Promise] = []
    for name, now in late.items():
        if name.partition(" ")[2] in _BY_DESIGN:
            continue
        slack = next(slack for kind, slack in _SLACK.items() if name.startswith(kind))
        before = early.get(name, 0.0)
        found.append(at_most(name, round(now, 1), round(before + max(slack, _SHARE * before), 1)))
    return found
