"""TEI stand-ins as processes: started, told how to behave, killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.stand_ins.forked import forked_server

_NORMAL = {"failure": None, "times": 0, "model": "all-MiniLM-L6-v2", "max_chars": 0}


@dataclass(frozen=True, slots=True)
class Tei:
    """A running stand-in."""

    url: str

    async def behave(self, **changes: Any) -> None:
        """From now on as told; without a word as a good server does."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, verify=False) as http:
            (await http.post("/behave", json=_NORMAL | changes)).raise_for_status()

    async def seen(self) -> list[int]:
        """How many texts came with each request."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, verify=False) as http:
            return (await http.get("/seen")).json()


@asynccontextmanager
async def tei_process(*arguments: str) -> AsyncGenerator[Tei]:
    """A stand-in that listens; killed at the end of the block."""
    process, url = await asyncio.to_thread(forked_server, "tests.stand_ins.tei", *arguments)
    try:
        yield Tei(url)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
