from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1, read_message
from orion_recall.sample.timed import sample_memories

FIRST = datetime(2026, 3, 1, 8, 17, tzinfo=UTC)
NOW = datetime(2026, 3, 1, 8, 59, 59, tzinfo=UTC)
WINDOW = timedelta(minutes=180)


def sample(now: datetime = NOW, first_run: datetime = FIRST) -> dict[str, dict[str, Any]]:
    """The sample by id."""
    memories = list(sample_memories(now, first_run))
    by_id = {memory["id"]: memory for memory in memories}
    assert len(by_id) == len(memories)
    return by_id


def fresh(memories: dict[str, dict[str, Any]], now: datetime) -> set[str]:
    """The ids that the timeline finds."""
    return {
        name
        for name, memory in memories.items()
        if now - WINDOW <= datetime.fromisoformat(memory["occurred_at"]) <= now
    }


def test_every_memory_keeps_to_the_contract_and_lies_in_the_past() -> None:
    for name, memory in sample().items():
        read = read_message(MemoryV1, memory, name)
        assert read.occurred_at is not None
        assert read.occurred_at < NOW


@pytest.mark.parametrize("minute", [0, 30, 59])
def test_the_timeline_finds_the_same_memories_at_any_minute_of_the_hour(minute: int) -> None:
    now = NOW.replace(minute=minute)
    assert len(fresh(sample(now), now)) == len([name for name in sample(now) if "@" in name]) == 10


def test_a_later_run_has_new_fresh_memories_and_leaves_the_others_as_they_were() -> None:
    tomorrow = NOW + timedelta(days=1)
    before, after = sample(NOW), sample(tomorrow)
    assert fresh(after, tomorrow) == after.keys() - before.keys()
    assert all(after[name] == before[name] for name in after.keys() & before.keys())


def test_the_first_run_counts_whatever_the_zone_it_is_given_in() -> None:
    elsewhere = FIRST.astimezone(datetime.fromisoformat("2026-03-01T00:00:00+05:30").tzinfo)
    assert sample(first_run=elsewhere) == sample()
