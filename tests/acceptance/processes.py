"""Workers as processes, and an executor that knows nothing but redis commands."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import Connection
from tests.acceptance.program import Program, Running
from tests.stand_ins.oxigraph import Oxigraph, oxigraph
from tests.stand_ins.patient_profiles import patient_profiles
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

CLAIM_IDLE_MS = 1000
# `make test-servers`: index and graph are separate processes by URL, as bus and Postgres always are here.
WITH_SERVERS = os.environ.get("ORION_TEST_SERVERS") == "1"


@dataclass(slots=True)
class Servers:
    """An index and a graph that several workers share."""

    qdrant: QdrantStandIn
    oxigraph: Oxigraph

    @property
    def settings(self) -> dict[str, str]:
        """What a worker must be told to use them."""
        return {"ORION_QDRANT_URL": self.qdrant.url, "ORION_SPARQL_URL": self.oxigraph.url}


_SERVERS: dict[Path, Servers] = {}


@dataclass(slots=True)
class WorkerProcess:
    """One `orion-recall worker`."""

    running: Running
    data_dir: Path
    ready: dict[str, Any]

    def send(self, number: signal.Signals) -> None:
        """A signal to the process."""
        self.running.signal(number)

    async def ended(self) -> int:
        """The exit code, once it has ended."""
        return await asyncio.to_thread(self.running.process.wait, 30)

    async def stop(self) -> int:
        """SIGTERM, and the exit code; a worker that does not end is killed."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        try:
            return await self.ended()
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.ended()
            raise


async def start_worker(
    engines: EmbeddedEngines,
    data_dir: Path,
    *,
    module: str = "orion_recall.cli.main",
    processes: int = 1,
    **environment: str,
) -> WorkerProcess:
    """A worker that has said it is ready; with more `processes` the parent of that many."""
    program = Program(
        data_dir.parent,
        module=module,
        settings={
            "ORION_REDIS_URL": engines.redis_url,
            "ORION_POSTGRES_DSN": engines.postgres_dsn,
            "ORION_DATA_DIR": str(data_dir),
            "ORION_CLAIM_IDLE_MS": str(CLAIM_IDLE_MS),
            "ORION_REFRESH_MS": "300",
            # On a busy machine nothing is late: it would be missing from answers.
            "ORION_DEADLINE_MS": "60000",
            "ORION_PROFILES_DIR": str(patient_profiles(engines.data_dir.parent)),
        }
        | (_SERVERS[engines.data_dir].settings if WITH_SERVERS else {})
        | environment,
    )
    several = ("--processes", str(processes)) if processes > 1 else ()
    running = program.start("worker", *several, "--json")
    return WorkerProcess(running, data_dir, await asyncio.to_thread(running.ready))


async def wait_until(predicate: Callable[[], Awaitable[bool]], *, what: str, timeout_s: float = 90.0) -> None:
    """Return once the predicate holds; AssertionError that says `what` did not come about."""
    until = time.monotonic() + timeout_s
    while not await predicate():
        assert time.monotonic() < until, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.05)


@dataclass(slots=True)
class Executor:
    """Sends queries and collects every reply by correlation id, with plain redis commands."""

    redis: Redis
    stream: str = field(default_factory=lambda: f"recall.reply.v1:{uuid4().hex}")
    sent: list[str] = field(default_factory=list[str])
    replies: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: cast("dict[str, list[dict[str, Any]]]", defaultdict(list))
    )
    _last: bytes = b"0"

    async def ask(self, fragment: str, **payload: Any) -> str:
        """One query; its correlation id."""
        correlation_id = uuid4().hex
        envelope = {
            "correlation_id": correlation_id,
            "kind": "recall.query.v1",
            "reply_to": self.stream,
            "payload": {"fragment": fragment, **payload},
        }
        await self.redis.xadd("recall.query.v1", {"envelope": json.dumps(envelope)})
        self.sent.append(correlation_id)
        return correlation_id

    async def ask_many(self, count: int, *, every_s: float = 0.0, **payload: Any) -> None:
        """Different questions, one after the other."""
        for number in range(count):
            await self.ask(f"what did Ana say about crate number {number} of {uuid4().hex[:6]}?", **payload)
            if every_s:
                await asyncio.sleep(every_s)

    async def all_answered(self) -> bool:
        """Read what has come; whether every query has a reply."""
        rows: Any = await self.redis.xrange(self.stream, min=b"(" + self._last if self._last != b"0" else b"-")
        for entry_id, fields in rows:
            envelope = json.loads(fields[b"envelope"])
            self.replies[envelope["correlation_id"]].append(envelope["payload"])
            self._last = entry_id
        return all(correlation_id in self.replies for correlation_id in self.sent)

    async def outcomes(self) -> dict[str, list[str]]:
        """The outcomes of all decisions on the stream, by correlation id."""
        found: dict[str, list[str]] = defaultdict(list)
        rows: Any = await self.redis.xrange("recall.decision.v1")
        for _, fields in rows:
            decision = json.loads(fields[b"envelope"])["payload"]
            found[decision["corr_id"]].append(decision["outcome"])
        return found


async def assert_once_each(executor: Executor, engines: EmbeddedEngines) -> None:
    """Every query has exactly one reply and one decision, on the bus and in Postgres, and nothing is pending."""
    await wait_until(executor.all_answered, what="a reply to every query")

    async def nothing_pending() -> bool:
        pending = await executor.redis.xpending("recall.query.v1", "orion-recall")
        return int(pending["pending"]) == 0

    await wait_until(nothing_pending, what="an empty pending list")
    await executor.all_answered()
    assert {len(replies) for replies in executor.replies.values()} == {1}
    outcomes = await executor.outcomes()
    assert {correlation_id: len(outcomes[correlation_id]) for correlation_id in executor.sent} == dict.fromkeys(
        executor.sent, 1
    )
    opened: Any = await asyncpg.connect(engines.postgres_dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:

        async def all_in_postgres() -> bool:
            rows = await connection.fetch(
                "SELECT corr_id, count(*) AS n FROM recall_decisions WHERE corr_id = ANY($1) GROUP BY 1",
                executor.sent,
            )
            assert all(row["n"] == 1 for row in rows)
            return len(rows) == len(executor.sent)

        await wait_until(all_in_postgres, what="a row for every decision")
    finally:
        await connection.close()


@asynccontextmanager
async def executor_for(engines: EmbeddedEngines) -> AsyncGenerator[Executor]:
    """An executor on the engines' bus."""
    redis = connect(engines.redis_url)
    executor = Executor(redis)
    try:
        yield executor
    finally:
        await redis.delete(executor.stream)
        await redis.aclose()


def servers_of(engines: EmbeddedEngines) -> Servers:
    """The servers beside these engines."""
    return _SERVERS[engines.data_dir]


@asynccontextmanager
async def _servers_for(engines: EmbeddedEngines) -> AsyncGenerator[None]:
    if not WITH_SERVERS:
        yield
        return
    with qdrant_stand_in() as qdrant:
        async with oxigraph() as graph:
            _SERVERS[engines.data_dir] = Servers(qdrant, graph)
            try:
                yield
            finally:
                del _SERVERS[engines.data_dir]


@asynccontextmanager
async def broken_copy(engines: EmbeddedEngines, data_dir: Path, which: str, file: str) -> AsyncGenerator[None]:
    """The index or graph cannot be used: its file is garbage, or its server is dead until the block ends."""
    if not WITH_SERVERS:
        (data_dir / which / file).write_bytes(b"\xff not what it was \xff")
        yield
        return
    servers = _SERVERS[engines.data_dir]
    if which == "index":
        servers.qdrant.kill()
    else:
        await servers.oxigraph.stop()
    try:
        yield
    finally:  # those that come after ask it, too
        if which == "index":
            servers.qdrant.start()
        else:
            await servers.oxigraph.start()


@asynccontextmanager
async def running_engines(*, workers: int = 1) -> AsyncGenerator[tuple[EmbeddedEngines, Path]]:
    """Engines of one's own, with connections for so many workers, and the folder around their data."""
    folder = Path(f"/tmp/orion-acceptance-{os.getpid()}-{uuid4().hex[:8]}")
    folder.mkdir(mode=0o711)
    try:
        async with EmbeddedEngines.start(folder / "engines", workers=workers) as engines, _servers_for(engines):
            yield engines, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


MEMORIES = [
    {
        "id": f"crate-{number}",
        "text": f"Crate number {number} stands in hall {number % 5}; Ana counted {number * 3} bottles.",
        "speaker": ("Ana", "Bo")[number % 2],
        "session_id": f"s{number // 10}",
        "entities": ["Ana", f"hall {number % 5}"],
        "occurred_at": time.time() - number * 60,
    }
    for number in range(40)
]


async def store_and_wait(engines: EmbeddedEngines, *workers: WorkerProcess) -> None:
    """The memories stored over the bus, and in every worker's index and graph."""
    async with RecallClient.connect(engines.redis_url) as client:
        receipt = await client.store(MEMORIES)
    assert receipt.error is None
    assert receipt.rejected == receipt.conflict == 0
    opened: Any = await asyncpg.connect(engines.postgres_dsn)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    connection = cast("Connection", opened)
    try:

        async def caught_up() -> bool:
            count = await connection.fetchval(
                "SELECT count(*) FROM projections WHERE position >= (SELECT max(position) FROM outbox)"
            )
            return count >= (2 if WITH_SERVERS else 2 * len(workers))  # servers are one copy for all

        await wait_until(caught_up, what="every copy to catch up")
    finally:
        await connection.close()
