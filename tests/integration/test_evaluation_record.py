"""The steps of an evaluation are those that the record's outbox gives."""

from __future__ import annotations

from random import Random

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.trials import changes
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.values import Change


async def test_every_memory_ends_with_the_neighbours_that_the_record_gives_it(database: str) -> None:
    random = Random(7)
    memories = [
        compose(
            MemoryV1.model_validate(
                {
                    "id": f"m{number}",
                    "text": f"Ana said {number} to Bo.",
                    "speaker": random.choice(("Ana", "Bo")),
                    "session_id": random.choice(("one", "two", None)),
                    "occurred_at": random.choice((None, *(f"2026-01-0{day}T09:00:00Z" for day in range(1, 6)))),
                }
            ),
            random.choice(("t", "u")),
        )
        for number in range(60)
    ]
    pool = await open_pool(database, name="test", min_size=0, max_size=2)
    try:
        record = Record(pool)
        for start in range(0, len(memories), 7):
            await record.store(memories[start : start + 7])
        told = await record.changes(0, 1000)
    finally:
        await pool.close()
    last: dict[tuple[str, str], Change] = {(step.memory.tenant, step.memory.id): step for step in told}
    assert len(told) > len(last) == len(memories)
    for step in changes(memories):
        given = last[step.memory.tenant, step.memory.id]
        assert (step.memory, step.previous, step.following) == (given.memory, given.previous, given.following)
