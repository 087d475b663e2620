"""A headless Chromium that a test drives by the DevTools protocol, over a pair of pipes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def installed() -> str | None:
    """The browser of this machine: ORION_TEST_CHROMIUM, or one on the PATH."""
    return os.environ.get("ORION_TEST_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """A page in a browser: what it said, what it asked for, what an expression gives in it."""

    def __init__(self, reader: asyncio.StreamReader, writer: int) -> None:
        self._reader, self._writer = reader, writer
        self._calls = 0
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []

    async def open(self, url: str) -> None:
        """Load a page, everything that it says and asks for noted."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What the expression gives."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its result; events that come before it are noted."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(event["params"])[:500])
        if event.get("method") == "Network.requestWillBeSent":
            self.asked.append(event["params"]["request"]["url"])


@asynccontextmanager
async def chromium(program: str, folder: Path) -> AsyncGenerator[Chromium]:
    """A browser with a profile in the folder; it ends with the block."""
    to_browser, our_end = os.pipe()
    from_browser, its_end = os.pipe()
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{its_end}', "chromium", program, "--headless",
        "--no-sandbox", "--no-zygote", "--single-process", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}", "--remote-debugging-pipe",
        pass_fds=(to_browser, its_end), stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_browser)
    os.close(its_end)
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_browser, "rb", 0)
    )
    try:
        yield Chromium(reader, our_end)
    finally:
        transport.close()
        os.close(our_end)
        process.kill()
        await process.wait()
