"""What one recall costs, in what can be counted: it must not grow unseen.

Fixed questions on fixed memories, for each shipped profile, through the worker on real engines. Counts do not
depend on how busy the machine is, so that their bounds can be close. They do depend on what the process has cached
and when it forgets it, so the least of three questions counts. A bound is raised only by a commit that says what
for.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from pydantic import SecretStr

import orion_recall
from orion_recall.bus.commit import Commit, Committed
from orion_recall.bus.envelope import encode_request
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import QUERY_KIND
from orion_recall.evaluation.dataset import read_memories
from orion_recall.evaluation.trials import changes, fill, index_and_graph, private_settings
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.profile.watch import ProfilesInUse, loaded_profiles
from orion_recall.serving.backends import open_sources
from orion_recall.serving.service import build_of
from orion_recall.serving.worker import Worker
from orion_recall.settings import Settings

pytestmark = pytest.mark.slow

MEMORIES = Path(__file__).parents[1] / "data" / "golden_topics" / "memories.jsonl"
QUESTIONS = tuple(
    f"What did Nadia say about the heat pump and its {part}?" for part in ("outdoor unit", "hot water", "loud fan")
)
BEFORE = ("What do we know about the school?", "Who is coming to the party?", "What did Ben say about the garden?")
NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC).timestamp()
PACKAGE = str(Path(orion_recall.__file__).parent)


@dataclass
class Cost:
    """What serving one entry took.

    Calls of our own functions on the event loop, jobs given to other threads, SQL statements, commits to the bus,
    and bytes of reply and decision.
    """

    calls: int = 0
    handovers: int = 0
    statements: list[str] = field(default_factory=list[str])
    commits: list[Commit] = field(default_factory=list[Commit])

    @property
    def reply_bytes(self) -> int:
        return sum(len(one.reply) for one in self.commits)

    @property
    def decision_bytes(self) -> int:
        return sum(len(one.decision) for one in self.commits)


# Some more than was seen, whichever profile is first and whatever the caches forget. A hand-over takes along
# what waits in the same turn of the loop, or it does not.
MOST = {
    "reflect.v1": {"calls": 2450, "handovers": 8, "reply_bytes": 8000, "decision_bytes": 7200},
    "assist.light.v1": {"calls": 2050, "handovers": 5, "reply_bytes": 5500, "decision_bytes": 5400},
    "deep.graph.v1": {"calls": 2850, "handovers": 10, "reply_bytes": 9800, "decision_bytes": 8400},
}

# Services of other tests may run in this process: what they do is not the recall's.
_IS_COUNTED: ContextVar[bool] = ContextVar("is_counted", default=False)


class Commits:
    """Takes commits, as the bus would."""

    def __init__(self) -> None:
        self.taken: list[Commit] = []

    async def commit(self, commit: Commit) -> Committed:
        self.taken.append(commit)
        return "committed"


@contextmanager
def counted(cost: Cost, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Counts what the block does, and the tasks that it starts. Calls are those of the event loop's thread."""

    def call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and _IS_COUNTED.get() and frame.f_code.co_filename.startswith(PACKAGE):
            cost.calls += 1

    submit = ThreadPoolExecutor.submit

    def submitted(self: ThreadPoolExecutor, *work: Any, **named: Any) -> Any:
        cost.handovers += _IS_COUNTED.get()
        return submit(self, *work, **named)

    def heard(method: str) -> None:
        asked = getattr(asyncpg.Connection, method)

        async def ask(self: Any, statement: str, *values: Any, **named: Any) -> Any:
            if _IS_COUNTED.get():
                cost.statements.append(statement)
            return await asked(self, statement, *values, **named)

        patched.setattr(asyncpg.Connection, method, ask)

    with monkeypatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "submit", submitted)
        for method in ("fetch", "fetchrow", "fetchval", "execute", "executemany"):
            heard(method)
        sys.setprofile(call)
        token = _IS_COUNTED.set(True)
        try:
            yield
        finally:
            _IS_COUNTED.reset(token)
            sys.setprofile(None)


@pytest.fixture
async def served(database: str) -> AsyncGenerator[tuple[Worker, Commits]]:
    """A worker on an index, a graph and a timeline that hold the memories."""
    memories = read_memories(MEMORIES)
    with tempfile.TemporaryDirectory(prefix="orion-costs-", dir="/tmp") as folder:
        settings = private_settings(Settings.read(), Path(folder)).changed(postgres_dsn=SecretStr(database))
        pool = await open_pool(database, name="costs", max_size=1)
        await Record(pool).store(memories)
        await pool.close()
        async with open_sources(settings) as opened:
            await fill(index_and_graph(opened), changes(memories))
            commits = Commits()
            profiles = ProfilesInUse(loaded_profiles(settings.profiles_dir))
            build = build_of(settings, opened.embedder)
            sources, now = opened.sources, lambda: NOW
            yield Worker(settings, commits, sources, profiles, server_time=now, build=lambda: build), commits


def entry(profile: str, fragment: str) -> Entry:
    payload: dict[str, Any] = {
        "fragment": fragment,
        "verb": "reflect",
        "session_id": "neighbours-9",
        "profile": profile,
        "options": {"tenant": "neighbours"},
    }
    envelope = encode_request(
        QUERY_KIND,
        payload,
        correlation_id="0" * 32,
        source={"name": "costs"},
        reply_to="recall.reply.v1",
        ttl_ms=None,
        created_at=datetime.fromtimestamp(NOW, UTC),
    )
    return Entry(id=f"{int(NOW * 1000)}-0", fields={b"envelope": envelope})


@pytest.mark.parametrize("profile", MOST)
async def test_a_recall_costs_no_more_than_it_did(
    served: tuple[Worker, Commits], profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, commits = served
    for question in BEFORE:
        await worker.serve(entry(profile, question))
    costs: list[Cost] = []
    for question in QUESTIONS:
        commits.taken = []
        costs.append(cost := Cost(commits=commits.taken))
        with counted(cost, monkeypatch):
            await worker.serve(entry(profile, question))
        assert worker.counts["ok"] == len(BEFORE) + len(costs)
        assert len(cost.commits) == 1, "one script on the bus's server"
        assert len(cost.statements) <= 1, "the timeline's; where memories are in the index, Postgres reads none"
    most = MOST[profile]
    found = {name: min(getattr(cost, name) for cost in costs) for name in most}
    assert min(found.values()) > 0
    assert {name: value for name, value in found.items() if value > most[name]} == {}
