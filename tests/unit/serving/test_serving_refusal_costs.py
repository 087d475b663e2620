"""What one refusal costs, in what can be counted: under a flood it is what a worker does most often.

Counts do not depend on how busy the machine is. A bound is raised only with a line in the changelog that says what
for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import orion_recall
from orion_recall.bus.commit import Commit, Committed
from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.errors import Overloaded
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.profile.watch import ProfilesInUse, loaded_profiles
from orion_recall.recall.types import Sources
from orion_recall.serving.admission import Admission
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.serving.worker import Worker
from orion_recall.settings import Settings

PACKAGE = str(Path(orion_recall.__file__).parent)
COUNT = 16
# Calls of our own functions, some more than was seen.
MOST_CALLS = 190
MOST_REPLY_BYTES, MOST_DECISION_BYTES = 900, 2000


class Commits:
    """Takes commits, as the bus would, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.taken: list[Commit] = []
        self.asked = 0

    async def commit(self, commit: Commit) -> Committed:
        return "committed" if await self.commit_all([commit]) else "fenced"

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[Committed | None]:
        self.asked += 1
        self.taken += commits
        results: list[Committed | None] = ["committed" for _ in commits]
        return results


@contextmanager
def counted() -> Generator[Callable[[], int]]:
    """Counts the calls of our own functions in the block."""
    calls = 0

    def call(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(call)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


def message(number: int) -> Entry:
    whole = {
        "correlation_id": f"00000000-0000-4000-8000-{number:012}",
        "kind": "recall.query.v1",
        "reply_to": "recall.reply.v1:me",
        "ttl_ms": 2000,
        "payload": {"fragment": "Who feeds the gulls?", "options": {"tenant": "default"}},
    }
    return Entry(id=f"1700000000000-{number}", fields={b"envelope": json.dumps(whole).encode()})


async def test_a_refusal_costs_no_more_than_it_did_and_sixteen_are_committed_at_once() -> None:
    settings = Settings(max_waiting=1)
    queue = QueryQueue(settings, Admission(most_slots=1, deadline_s=2.0), earliest=lambda: 1_700_000_000.0)
    commits = Commits()
    profiles = ProfilesInUse(loaded_profiles(settings.profiles_dir))
    worker = Worker(
        settings,
        commits,
        Sources(by_name={}, tokens=TokenCounter()),
        profiles,
        server_time=lambda: 1_700_000_000.0,
    )
    queue.put(message(0))
    await worker.turn_away(queue.put(message(1)))  # what is made once, is made
    commits.taken.clear()
    commits.asked = 0
    with counted() as calls:
        turned: list[Turned] = [one for number in range(COUNT) for one in queue.put(message(number + 2))]
        await worker.turn_away(turned)
        seen = calls()
    assert worker.counters.outcomes["refused"] == COUNT + 1
    assert isinstance(turned[0].error, Overloaded)
    assert (commits.asked, len(commits.taken)) == (1, COUNT)
    assert 0 < seen / COUNT <= MOST_CALLS
    assert max(len(one.reply) for one in commits.taken) <= MOST_REPLY_BYTES
    assert max(len(one.decision) for one in commits.taken) <= MOST_DECISION_BYTES
