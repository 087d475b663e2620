"""A TCP proxy in front of a server, which can be slow, hang, refuse, speak TLS, and tell what it was sent.

async with Proxy.before("127.0.0.1", 5432) as proxy:
    proxy.delay_s = 0.5        # every piece of data, either way, arrives that much later
    proxy.hang()               # accepts, and never says another word; `resume()` lets everything through again
    await proxy.drop()         # every connection is cut; new ones are taken
    await proxy.refuse()       # nobody listens any more; `listen()` takes the same port again
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable

from tests.stand_ins.ports import free_port

_PIECE = 65536
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Proxy:
    """Listens on a port of loopback."""

    def __init__(self, connect: Connect, tls: ssl.SSLContext | None, asked: bool = False) -> None:
        self.delay_s = 0.0
        self.accepted = 0
        self.sent = bytearray()  # by clients, while `recording`
        self.recording = False
        self.port = 0
        self._connect, self._tls = connect, tls
        self._asked = asked  # TLS begins when the client asks for it, as with Postgres
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Proxy]:
        """In front of a TCP server; with `tls` clients must speak it, and the server behind hears plain text."""
        async with cls._running(cls(lambda: asyncio.open_connection(host, port), tls)) as proxy:
            yield proxy

    @classmethod
    @contextlib.asynccontextmanager
    async def before_socket(
        cls, path: str, *, tls: ssl.SSLContext | None = None, asked: bool = False
    ) -> AsyncGenerator[Proxy]:
        """In front of a server on a Unix socket. `asked`: clients send Postgres's request for TLS first."""
        async with cls._running(cls(lambda: asyncio.open_unix_connection(path), tls, asked)) as proxy:
            yield proxy

    @staticmethod
    @contextlib.asynccontextmanager
    async def _running(proxy: Proxy) -> AsyncGenerator[Proxy]:
        await proxy.listen()
        try:
            yield proxy
        finally:
            await proxy.refuse()

    @property
    def host_and_port(self) -> str:
        """Where it listens, as in a URL."""
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Connections of clients that are open now."""
        return len(self._tasks)

    async def listen(self) -> None:
        """Take connections, after `refuse()` on the same port again.

        The port is none that the system gives by itself: while nobody listens there, a client that tries again and
        again could be given it as its own end, and would be connected with itself.
        """
        self.port = self.port or free_port()
        tls = None if self._asked else self._tls
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, ssl=tls)

    def hang(self) -> None:
        """From now on accept and pass on nothing, over connections that are open, too."""
        self._flowing.clear()

    def resume(self) -> None:
        """Pass on everything, also what was held back."""
        self._flowing.set()

    async def drop(self) -> None:
        """Cut every connection."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def refuse(self) -> None:
        """Listen no more, and cut every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.drop()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        self._tasks.add(task)
        server: asyncio.StreamWriter | None = None
        # A cancelled task of a stream server would be logged as an error: it ends as if all were well.
        with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            try:
                await self._flowing.wait()
                if self._asked and self._tls is not None:
                    await reader.readexactly(8)
                    writer.write(b"S")
                    await writer.start_tls(self._tls)
                answers, server = await self._connect()
                async with asyncio.TaskGroup() as both:
                    there = both.create_task(self._pump(reader, server, self._record))
                    back = both.create_task(self._pump(answers, writer, None))
                    await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
                    there.cancel()
                    back.cancel()
            finally:
                self._tasks.discard(task)
                for end in (writer, server):
                    if end is not None:
                        end.transport.abort()

    def _record(self, piece: bytes) -> None:
        if self.recording:
            self.sent += piece

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, heard: Callable[[bytes], None] | None
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(_PIECE):
                if heard is not None:
                    heard(piece)
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flowing.wait()
                target.write(piece)
                await target.drain()
