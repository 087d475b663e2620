"""Redis or Valkey servers with options of one's own, and Sentinels over them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.engines.valkey import find_binary
from tests.stand_ins.ports import free_port


@dataclass(slots=True)
class RedisServer:
    """One server; `process` is there while it runs."""

    folder: Path
    port: int = field(default_factory=free_port)
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    binary: Path = field(default_factory=find_binary)
    process: Process | None = None

    async def start(self) -> None:
        """Run it; returns when it listens."""
        given = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "save": ""} | dict(
            self.options
        )
        await self._run([part for name, value in given.items() for part in (f"--{name}", value)])

    async def start_as_sentinel(self, lines: str) -> None:
        """Run it as a Sentinel with these lines of configuration, which it rewrites."""
        path = self.folder / "sentinel.conf"
        path.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n{lines}")
        await self._run([str(path), "--sentinel"])

    async def _run(self, arguments: list[str]) -> None:
        self.process = await asyncio.create_subprocess_exec(
            str(self.binary), *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        async with asyncio.timeout(30):
            while not await self._listens():
                assert self.process.returncode is None, f"{self.binary} {arguments} has ended"
                await asyncio.sleep(0.02)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def send(self, number: signal.Signals) -> None:
        """A signal to the process."""
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self) -> None:
        """Kill it, if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass(frozen=True, slots=True)
class SentinelSetup:
    """A master with a replica, and three Sentinels that watch them; `first` was the master at the start."""

    first: RedisServer
    second: RedisServer
    sentinels: tuple[RedisServer, ...]

    @property
    def url(self) -> str:
        """The address as a worker is given it."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"redis+sentinel://{hosts}/mesh/0"

    async def master_port(self) -> int:
        """The port of the master, as a Sentinel says."""
        async with Redis(port=self.sentinels[-1].port) as sentinel:
            found = await sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mesh")  # pyright: ignore
        return int(cast("list[bytes]", found)[1])


@contextlib.asynccontextmanager
async def sentinel_setup(folder: Path, *, down_after_ms: int = 500) -> AsyncGenerator[SentinelSetup]:
    """The whole of it, running and in step."""
    folders = [folder / name for name in ("first", "second", "s1", "s2", "s3")]
    for one in folders:
        one.mkdir()
    # A master waits five seconds for more replicas before it sends the first its data. There is one.
    at_once = {"repl-diskless-sync-delay": "0"}
    first = RedisServer(folders[0], options=at_once)
    second = RedisServer(folders[1], options=at_once | {"replicaof": f"127.0.0.1 {first.port}"})
    sentinels = tuple(RedisServer(one) for one in folders[2:])
    lines = (
        f"sentinel monitor mesh 127.0.0.1 {first.port} 2\n"
        f"sentinel down-after-milliseconds mesh {down_after_ms}\n"
        "sentinel failover-timeout mesh 3000\n"
    )
    try:
        await first.start()
        await second.start()
        for one in sentinels:
            await one.start_as_sentinel(lines)
        async with asyncio.timeout(30):
            while not await _in_step(second, sentinels):
                await asyncio.sleep(0.05)
        yield SentinelSetup(first, second, sentinels)
    finally:
        for one in (*sentinels, second, first):
            await one.end()


async def _in_step(replica: RedisServer, sentinels: tuple[RedisServer, ...]) -> bool:
    """Whether the replica has the master's data, and every Sentinel knows the other two and the replica."""
    try:
        async with Redis(port=replica.port) as redis:
            if (await redis.info("replication"))["master_link_status"] != "up":  # pyright: ignore
                return False
        for one in sentinels:
            async with Redis(port=one.port) as sentinel:
                (master,) = (await sentinel.sentinel_masters()).values()  # pyright: ignore
            if (master["num-other-sentinels"], master["num-slaves"]) != (2, 1):
                return False
    except (RedisError, OSError):
        return False
    return True
