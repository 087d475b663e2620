"""Stand-ins of chat servers as processes: started, told how to behave, killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

_TOP = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Chat:
    """A running stand-in; `url` is what the settings are given."""

    url: str

    async def behave(self, failure: object = None, *, times: int = 0, retry_after: str | None = None) -> None:
        """From now on as told; without a word as a good server does."""
        async with httpx.AsyncClient(base_url=self._root, trust_env=False, verify=False) as http:
            headers = {} if retry_after is None else {"Retry-After": retry_after}
            told = {"failure": failure, "times": times, "headers": headers}
            (await http.post("/behave", json=told)).raise_for_status()

    async def seen(self) -> list[Any]:
        """The bodies of the requests."""
        return (await self._told())["seen"]

    async def others(self) -> list[str]:
        """The paths that were asked for and are no chat."""
        return (await self._told())["others"]

    async def most_running(self) -> int:
        """The most requests that were answered side by side."""
        return (await self._told())["most_running"]

    async def _told(self) -> Any:
        async with httpx.AsyncClient(base_url=self._root, trust_env=False, verify=False) as http:
            return (await http.get("/seen")).json()

    @property
    def _root(self) -> str:
        return self.url.removesuffix("/v1")


@asynccontextmanager
async def chat_process(*arguments: str) -> AsyncGenerator[Chat]:
    """A stand-in that listens; killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.stand_ins.chat", *arguments, cwd=_TOP, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        yield Chat(line.decode().strip())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # pyright: ignore
