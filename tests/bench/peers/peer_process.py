"""A peer in a process of its own, in its own environment, spoken to over a pipe (`serve.py` is the other end)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.models.onnx_encoder import find_weights
from orion_recall.values import Memory
from tests.bench.corpus import questions
from tests.bench.measure import tree_cpu_s, tree_memory_mib
from tests.bench.peers.asked import About, CannotMeasure, Figures, K, Questions, figures
from tests.bench.peers.peer import ONE_THREAD, Kind, Told

REPOSITORY = Path(__file__).parents[3]
_LINE_BYTES = 64 << 20
_REPLY_TIMEOUT_S, _STOP_TIMEOUT_S = 3600.0, 60.0
_QUESTIONS_A_SECOND = 400
"""More than any peer answers: a cell ends by its seconds."""


class PeerProcess:
    """An opened peer. Made by `open_process`; asked by one coroutine at a time."""

    def __init__(self, kind: Kind, process: Process, postgres_pid: int | None) -> None:
        self._kind = kind
        self._process = process
        self._postgres = () if postgres_pid is None else (postgres_pid,)
        self._questions = Questions(questions())
        self._opened: Mapping[str, Any] = {}
        self._fill_s = 0.0

    @property
    def about(self) -> About:
        return About(
            name=self._kind.name,
            shown=self._kind.shown,
            way=self._kind.way,
            versions=self._opened["versions"],
            fill_s=self._fill_s,
        )

    async def opened(self) -> None:
        """Waits for its first line. CannotMeasure with the reason that it gives."""
        self._opened = await self._reply()

    async def fill(self, memories: Sequence[Told]) -> None:
        """Stores the memories apart from those before."""
        reply = await self._request({"do": "fill", "memories": [asdict(one) for one in memories]})
        self._fill_s = self._fill_s or reply["seconds"]

    async def cell(self, in_flight: int, seconds: float) -> Figures:
        coming = self._questions.coming(in_flight + int(_QUESTIONS_A_SECOND * seconds))
        warm, counted = coming[:in_flight], coming[in_flight:]
        await self._request({"do": "warm", "questions": warm, "k": K})
        before = self._cpu_s()
        reply = await self._request(
            {"do": "cell", "questions": counted, "in_flight": in_flight, "seconds": seconds, "k": K}
        )
        cpu_s = self._cpu_s() - before
        self._questions.used(in_flight + len(reply["taken_s"]))
        return figures(reply["taken_s"], in_flight=in_flight, passed_s=reply["passed_s"], cpu_s=cpu_s)

    def _cpu_s(self) -> float:
        return sum(tree_cpu_s(pid) for pid in (self._process.pid, *self._postgres))

    def memory_mib(self) -> float:
        return sum(tree_memory_mib(pid) for pid in (*self._opened["pids"], *self._postgres))

    async def fill_conversation(self, memories: Sequence[Memory]) -> None:
        await self.fill([_told(memory) for memory in memories])

    async def ranked(self, query: JudgedQuery) -> list[str]:
        at = None if query.asked_at is None else _iso(query.asked_at)
        reply = await self._request({"do": "ask", "question": query.text, "k": K, "at": at})
        return reply["ids"]

    async def _request(self, fields: Mapping[str, Any]) -> Any:
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


@contextlib.asynccontextmanager
async def open_process(kind: Kind, folder: Path) -> AsyncGenerator[PeerProcess]:
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
            str(python),
            "-m",
            "tests.bench.peers.serve",
            kind.name,
            str(place),
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            limit=_LINE_BYTES,
            cwd=REPOSITORY,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"},
        )
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


def told(memories: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Memories of the corpus as a peer gets them."""
    return [Told(id=one["id"], text=f"{one['speaker']}: {one['text']}", at=one["occurred_at"]) for one in memories]


def _told(memory: Memory) -> Told:
    text = memory.text if memory.speaker is None else f"{memory.speaker}: {memory.text}"
    return Told(id=memory.id, text=text, at=_iso(memory.occurred_at or 0.0))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
