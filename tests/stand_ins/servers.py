"""Small HTTP servers on loopback that answer as they are told, late, piece by piece, or never."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came. Names of headers are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back: after `delay_s`, and with `drip_s` one byte at a time with that pause between two.

    With a header `Connection: close` its length is not said, and the connection ends with it.
    """

    status: int = 200
    media_type: str = "application/json"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay_s: float = 0.0
    drip_s: float = 0.0


class StandIn:
    """A server that was started by `answering` or `hanging`. `answer` may be changed while it runs."""

    def __init__(self, answer: Callable[[Asked], Answer | None]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.connections: set[asyncio.StreamWriter] = set()
        self.scheme, self.port = "http", 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client leaves it."""
        self.connections.add(writer)
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                answer = self.answer(asked)
                if answer is None:
                    await reader.read()  # for ever, or until the client goes
                    return
                if answer.delay_s and not await _still_there(reader, answer.delay_s):
                    return
                await self._send(answer, reader, writer)
                if answer.headers.get("Connection") == "close":
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()

    async def _send(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = {"Content-Type": answer.media_type, "Content-Length": str(len(answer.body))} | dict(
            answer.headers
        )
        lines = [f"HTTP/1.1 {answer.status} Told", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join((*lines, "", "")).encode())
        if not answer.drip_s:
            writer.write(answer.body)
            await writer.drain()
            return
        for place in range(len(answer.body)):
            writer.write(answer.body[place : place + 1])
            await writer.drain()
            if not await _still_there(reader, answer.drip_s):
                raise ConnectionResetError


@asynccontextmanager
async def answering(
    answer: Callable[[Asked], Answer | None], *, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncGenerator[StandIn]:
    """A server on that or a free port; where `answer` gives None it says nothing and keeps the connection."""
    stand_in = StandIn(answer)
    server = await asyncio.start_server(stand_in.talk, "127.0.0.1", port, ssl=tls)
    stand_in.scheme = "http" if tls is None else "https"
    stand_in.port = server.sockets[0].getsockname()[1]
    try:
        yield stand_in
    finally:
        server.close()
        for writer in list(stand_in.connections):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


@asynccontextmanager
async def hanging() -> AsyncGenerator[StandIn]:
    """A server that accepts, reads and never answers."""
    async with answering(lambda _: None) as stand_in:
        yield stand_in


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *rest = head.decode("latin-1").strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method=method, path=path, headers=headers, body=body)


async def _still_there(reader: asyncio.StreamReader, for_s: float) -> bool:
    """Waits; False as soon as the client has closed its side."""
    try:
        async with asyncio.timeout(for_s):
            return await reader.read(1) != b""
    except TimeoutError:
        return True
