"""Systems as the bench asks them, ours and others alike: questions in flight, and those of the golden set."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from orion_recall.contracts import RecallQueryV1
from orion_recall.contracts.recall import RecallOptionsV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.evaluation.dataset import JudgedQuery, RunLine, read_memories, read_queries
from orion_recall.evaluation.measures import Mean, judged, measure, score
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.values import Memory
from tests.bench.background import settled
from tests.bench.corpus import Corpus, questions
from tests.bench.measure import tree_cpu_s, tree_memory_mib
from tests.bench.peers.serve import KINDS, ONE_THREAD, Kind, Told
from tests.bench.running_worker import (
    Cell,
    RunningWorker,
    cell_of,
    filled_worker,
    import_all,
    queries_from,
    recall_cell,
)

K = 10
"""Memories asked for."""
REPOSITORY = Path(__file__).parents[3]
_GOLDEN = REPOSITORY / "tests" / "data" / "golden"
_DEPTHS = (5, 10)
_MAX_TOKENS = 4096
"""As many as Hindsight gives by default, so that it is `k` that ends an answer everywhere."""
_LINE_BYTES = 64 << 20
_REPLY_TIMEOUT_S, _STOP_TIMEOUT_S = 3600.0, 60.0
_QUESTIONS_A_SECOND = 400
"""More than any peer answers: a cell ends by its seconds."""


class CannotMeasure(Exception):
    """The system cannot be opened, or failed; it is left out, and the report gives the message as the reason."""


class System(Protocol):
    """A system with its memories; `fill_s` is until all of them could be found."""

    @property
    def shown(self) -> str: ...
    @property
    def way(self) -> str: ...
    @property
    def versions(self) -> Mapping[str, str]: ...
    @property
    def fill_s(self) -> float: ...

    async def cell(self, in_flight: int, seconds: float) -> Cell:
        """Questions in the corpus's order with so many under way at any time, after a few that do not count."""
        ...

    def memory_mib(self) -> float:
        """What its processes hold now, without the client where that is a process of its own."""
        ...

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        """Stores one conversation apart from everything else."""
        ...

    async def ranked(self, query: JudgedQuery) -> list[str]:
        """The best ten of the conversation that was stored last, best first."""
        ...


async def recall_on(system: System) -> dict[int, Mean]:
    """Recall by depth on tests/data/golden, with its 95 % interval.

    Each conversation is stored apart, and asked for ten memories.
    """
    queries, run = judged(read_queries(_GOLDEN / "queries.jsonl")), dict[str, RunLine]()
    by_conversation = sorted(read_memories(_GOLDEN / "memories.jsonl"), key=lambda one: one.tenant)
    for conversation, memories in groupby(by_conversation, key=lambda one: one.tenant):
        await system.fill_conversation(list(memories))
        for query in queries:
            if query.conversation == conversation:
                run[query.id] = RunLine(ranked=tuple(await system.ranked(query)), selected=None, line=0)
    scores, _ = score(measure(run, queries, _DEPTHS))
    return {depth: scores.means[f"recall@{depth}"] for depth in _DEPTHS}


class Ours:
    """orion-recall as its callers use it: an embedded worker in a process of its own, asked over the bus."""

    way = "bus"

    def __init__(self, worker: RunningWorker, profile: str) -> None:
        self._worker, self._profile = worker, profile
        self.shown = f"orion-recall, {profile}"
        self.versions = {"orion-recall": version("orion-recall")}
        self.fill_s = worker.imported.seconds

    async def cell(self, in_flight: int, seconds: float) -> Cell:
        return await recall_cell(self._worker, in_flight, seconds)

    def memory_mib(self) -> float:
        engines = self._worker.engines.pids
        return sum(tree_memory_mib(pid) for pid in (self._worker.worker_pid, *engines.values()))

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        fields = ("id", "tenant", "text", "speaker", "session_id", "occurred_at")
        told = [{name: getattr(one, name) for name in fields} for one in memories]
        corpus = Corpus(memories=told, recent_sessions=[])
        await import_all(self._worker.engines, corpus, self._worker.worker_pid, lambda _: None)

    async def ranked(self, query: JudgedQuery) -> list[str]:
        as_of = None if query.asked_at is None else datetime.fromtimestamp(query.asked_at, UTC)
        options = RecallOptionsV1(tenant=query.conversation, k=K, max_tokens=_MAX_TOKENS, as_of=as_of)
        asked = RecallQueryV1(fragment=query.text, profile=self._profile, options=options)
        answer = await self._worker.client.recall(asked)
        if answer.error is not None:
            raise RuntimeError(f"no answer: {answer.error}")
        return [item.id for item in answer.bundle.items]


@contextlib.asynccontextmanager
async def open_ours(told: Corpus, profile: str, folder: Path) -> AsyncGenerator[Ours]:
    """With its memories, ten of which are asked for."""
    options = RecallOptionsV1(k=K, max_tokens=_MAX_TOKENS)
    async with filled_worker(told, profile, folder / "data", settings={"ORION_TENANTS": "*"}) as worker:
        worker = replace(worker, queries=queries_from(told.recent_sessions, profile, options=options))
        await settled([worker])
        yield Ours(worker, profile)


class PeerProcess:
    """An opened peer. Made by `open_process`; asked by one coroutine at a time."""

    def __init__(self, kind: Kind, process: Process, postgres_pid: int | None) -> None:
        self.shown, self.way = kind.shown, kind.way
        self.versions: Mapping[str, str] = {}
        self.fill_s = 0.0
        self._process = process
        self._postgres = () if postgres_pid is None else (postgres_pid,)
        self._pids: list[int] = []
        self._questions = questions()
        # The same for every system, in the same order: what a cell has not used goes to the next.
        self._next: list[str] = []

    async def opened(self) -> None:
        """Waits for its first line. CannotMeasure with the reason that it gives."""
        reply = await self._reply()
        self.versions, self._pids = reply["versions"], reply["pids"]

    async def fill(self, memories: Sequence[Told]) -> None:
        """Stores the memories apart from those before."""
        reply = await self._request(do="fill", memories=[asdict(one) for one in memories])
        self.fill_s = self.fill_s or reply["seconds"]

    async def cell(self, in_flight: int, seconds: float) -> Cell:
        wanted = in_flight + int(_QUESTIONS_A_SECOND * seconds)
        self._next += itertools.islice(self._questions, max(0, wanted - len(self._next)))
        await self._request(do="warm", questions=self._next[:in_flight], k=K)
        before, asked = self._cpu_s(), self._next[in_flight:wanted]
        reply = await self._request(do="cell", questions=asked, in_flight=in_flight, seconds=seconds, k=K)
        used_s, taken_s = self._cpu_s() - before, reply["taken_s"]
        del self._next[: in_flight + len(taken_s)]
        if all(taken is None for taken in taken_s):
            raise CannotMeasure("no question was answered")
        return cell_of(taken_s, in_flight=in_flight, passed_s=reply["passed_s"], used_s={"peer": used_s})

    def _cpu_s(self) -> float:
        return sum(tree_cpu_s(pid) for pid in (self._process.pid, *self._postgres))

    def memory_mib(self) -> float:
        return sum(tree_memory_mib(pid) for pid in (*self._pids, *self._postgres))

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        await self.fill(
            [
                Told(
                    id=memory.id,
                    text=memory.text if memory.speaker is None else f"{memory.speaker}: {memory.text}",
                    at=_iso(memory.occurred_at or 0.0),
                )
                for memory in memories
            ]
        )

    async def ranked(self, query: JudgedQuery) -> list[str]:
        at = None if query.asked_at is None else _iso(query.asked_at)
        return (await self._request(do="ask", question=query.text, k=K, at=at))["ids"]

    async def _request(self, **fields: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields).encode() + b"\n")
        with contextlib.suppress(ConnectionError):  # it has ended: there will be no reply
            await self._process.stdin.drain()
        return await self._reply()

    async def _reply(self) -> Any:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), _REPLY_TIMEOUT_S)
        reply: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        if "error" in reply:
            raise CannotMeasure(reply["error"])
        return reply


async def filled_peer(stack: contextlib.AsyncExitStack, name: str, memories: Corpus, folder: Path) -> PeerProcess:
    """A peer that is closed with the stack; one that cannot be filled is closed at once."""
    async with contextlib.AsyncExitStack() as own:
        folder.mkdir(mode=0o711)
        peer = await own.enter_async_context(open_process(name, KINDS[name], folder))
        await peer.fill(
            [
                Told(id=one["id"], text=f"{one['speaker']}: {one['text']}", at=one["occurred_at"])
                for one in memories.memories
            ]
        )
        stack.push_async_exit(own.pop_all())
        return peer


@contextlib.asynccontextmanager
async def open_process(name: str, kind: Kind, folder: Path) -> AsyncGenerator[PeerProcess]:
    """The peer, open and empty. CannotMeasure without its environment, or when it cannot be imported or started."""
    python = REPOSITORY / kind.environment / "bin" / "python"
    if not python.exists():
        raise CannotMeasure(
            f"{kind.environment} is not there: make bench-peers makes it where the packages can be had"
        )
    async with contextlib.AsyncExitStack() as stack:
        place, arguments, postgres_pid = folder / "peer", list[str](), None
        place.mkdir(parents=True)
        if kind.needs_postgres:
            started = EmbeddedEngines.start(folder / "data", valkey=False, postgres_schema="public")
            engines = await stack.enter_async_context(started)
            postgres_pid = engines.pids["postgres"]
            arguments = ["--postgres", engines.postgres_dsn, "--onnx-model", str(find_weights().model_path)]
        log = stack.enter_context((folder / "peer.log").open("ab"))
        process = await asyncio.create_subprocess_exec(
            str(python), "-m", "tests.bench.peers.serve", name, str(place), *arguments,
            stdin=PIPE, stdout=PIPE, stderr=log, limit=_LINE_BYTES, cwd=REPOSITORY,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        stack.push_async_callback(_end, process)
        peer = PeerProcess(kind, process, postgres_pid)
        await peer.opened()
        yield peer


async def _end(process: Process) -> None:
    """It ends when there are no more requests."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
