"""The health port: a small HTTP server in its own thread and event loop, so that it answers while the worker hangs.

It serves GET and HEAD, one request a connection, and allows five seconds, 8 KiB of request and 32 connections at a
time, so that no client can harm the worker.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus

from orion_recall.errors import SettingsError
from orion_recall.tasks import cancel

_REQUEST_S = 5.0
_REQUEST_BYTES = 8192
_MOST_CONNECTIONS = 32
_STOP_S = 5.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of_json(cls, status: HTTPStatus, value: object, **headers: str) -> Answer:
        """The value as JSON."""
        return cls(status=status, body=json.dumps(value).encode() + b"\n", headers=headers)


Route = Callable[[], Awaitable[Answer]]


class HttpPort:
    """Serves the routes by path, from `start()` to `stop()`. Port 0 takes a free one: `address` says which."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self.address: tuple[str, int] = (host, port)
        self._routes = routes
        self._open: dict[asyncio.Task[None], socket.socket] = {}
        self._started: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="health", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Listens when it returns; SettingsError when the address cannot be had."""
        self._thread.start()
        await asyncio.wrap_future(self._started)

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, _STOP_S)

    async def _serve(self) -> None:
        try:
            listener = listening_socket(*self.address)
        except SettingsError as error:
            self._started.set_exception(error)
            return
        loop = self._loop = asyncio.get_running_loop()
        with listener:
            listener.setblocking(False)
            self.address = listener.getsockname()[:2]
            self._started.set_result(None)
            loop.add_reader(listener, self._accept, listener, loop)
            await self._stop.wait()
            loop.remove_reader(listener)
        clients = dict(self._open)
        await cancel(*clients)
        for client in clients.values():
            client.close()

    def _accept(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """Accept one client. asyncio's own servers leak a client that connects while they are closed."""
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no more files may be opened, most likely: later
            loop.remove_reader(listener)
            loop.call_later(_PAUSE_S, self._accept_again, listener, loop)
            return
        if len(self._open) >= _MOST_CONNECTIONS:
            client.close()
            return
        client.setblocking(False)
        task = loop.create_task(self._serve_client(client))
        self._open[task] = client
        task.add_done_callback(self._open.pop)

    def _accept_again(self, listener: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        if not self._stop.is_set():
            loop.add_reader(listener, self._accept, listener, loop)

    async def _serve_client(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=_REQUEST_BYTES)
        # Nothing stays in our buffers: a client that does not read its response is dropped like any slow one.
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(_REQUEST_S):
                await self._exchange(reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # it is gone, or was too slow
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body, answer = await self._answer(reader)
        head = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
            "Cache-Control: no-store",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
        ]
        writer.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + (answer.body if with_body else b""))
        await writer.drain()
        writer.write_eof()
        # A client that is still sending would see a reset instead of the answer.
        while await reader.read(_REQUEST_BYTES):
            pass

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[bool, Answer]:
        """Whether the body is to be sent, and the answer."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return True, _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {_REQUEST_BYTES} bytes")
        match head.partition(b"\r\n")[0].decode("latin-1").split(" "):
            case [("GET" | "HEAD") as method, target, ("HTTP/1.0" | "HTTP/1.1")]:
                route = self._routes.get(target.partition("?")[0])
                if route is None:
                    return True, _error(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._routes)}")
                return method == "GET", await route()
            case [_, _, ("HTTP/1.0" | "HTTP/1.1")]:
                return True, _error(HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only", Allow="GET, HEAD")
            case _:
                return True, _error(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; SettingsError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"ORION_HEALTH_PORT: cannot listen on {host} port {port}: {error}") from error


def _error(status: HTTPStatus, why: str, **headers: str) -> Answer:
    return Answer.of_json(status, {"error": why}, **headers)
