"""A real Oxigraph server on loopback: started, stopped, killed, and started again where it was."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sysconfig
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.stand_ins.ports import free_port

_BINARY = Path(sysconfig.get_path("scripts")) / "oxigraph"


class Oxigraph:
    """One server: its port stays the same when it is started again, and so does its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it takes queries."""
        return f"http://127.0.0.1:{self.port}/query"

    async def start(self) -> None:
        """Returns once it answers."""
        assert self.process is None
        self.process = await asyncio.create_subprocess_exec(
            _BINARY, "serve", "--location", self.folder, "--bind", f"127.0.0.1:{self.port}", "--timeout-s", "5",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(30):
            while not await self._answers():
                assert self.process.returncode is None, "oxigraph ended at once"
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Killed, as by a crash; nothing happens when it is not running."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            await process.wait()

    def pause(self) -> None:
        """From now on it accepts connections and does nothing, until `resume`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on where it was paused."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def update(self, text: str) -> None:
        """Carry out an update, as somebody else's program would."""
        async with httpx.AsyncClient(verify=False) as client:
            response = await client.post(self.url.removesuffix("query") + "update", data={"update": text})
            response.raise_for_status()

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True


@asynccontextmanager
async def oxigraph() -> AsyncGenerator[Oxigraph]:
    """A running server with nothing in it; its data goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="orion-oxigraph-"))
    server = Oxigraph(folder)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)
