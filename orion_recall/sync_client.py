"""The synchronous client: the calls of `RecallClient`, each waiting for its reply.

with SyncRecallClient.connect("redis://localhost:6379") as client:
    reply = client.recall("what did Ana say about the harbour?", profile="reflect.v1")
    prompt = reply.bundle.rendered
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from orion_recall.bus.calls import ConnectOptions
from orion_recall.client import RecallClient
from orion_recall.errors import BusUnavailable, ClientError

P = ParamSpec("P")
R = TypeVar("R")

# Python sees a signal that comes in the instant before a wait only when the wait ends.
_SIGNALS_EVERY_S = 0.25


def _waiting(
    method: Callable[Concatenate[RecallClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncRecallClient, P], R]:
    @functools.wraps(method)
    def call(self: SyncRecallClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._wait(lambda: method(self._client, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


class SyncRecallClient:
    """Calls orion-recall over the bus and waits. Any number of threads may call at once, on one connection.

    Fields and errors are those of `RecallClient`. It keeps an event loop of its own in a thread, so it also works
    where another loop runs (a notebook); that one stands still while a call waits. Ctrl-C ends the call that waits,
    and further calls can be made. Close it, or use it as a context manager: that ends the thread and deletes the
    reply stream. A process that was forked needs a client of its own.
    """

    recall = _waiting(RecallClient.recall)
    store = _waiting(RecallClient.store)
    update = _waiting(RecallClient.update)
    delete = _waiting(RecallClient.delete)
    feedback = _waiting(RecallClient.feedback)

    def __init__(self, opening: contextlib.AbstractAsyncContextManager[RecallClient]) -> None:
        """Use `connect`."""
        self._process = os.getpid()
        self._lock = threading.Lock()  # between a call that is handed over and the end of the loop
        self._open = True
        self._stack = contextlib.AsyncExitStack()
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._keep_running(started)), name="orion-recall-client", daemon=True
        )
        self._thread.start()
        self._loop, self._running = started.result()
        with contextlib.ExitStack() as unless_connected:
            unless_connected.callback(self.close)
            self._client = self._wait(lambda: self._stack.enter_async_context(opening))
            unless_connected.pop_all()

    @classmethod
    def connect(cls, url: str, **options: Unpack[ConnectOptions]) -> Self:
        """A connected client. Options and errors are those of `RecallClient.connect`."""
        return cls(RecallClient.connect(url, **options))

    def close(self) -> None:
        """Deletes the reply stream and ends the thread. Calls that wait get BusUnavailable. May be called again."""
        with self._lock:
            was_open, self._open = self._open, False
        if os.getpid() != self._process:
            return  # the thread, and the stream, are the other process's
        if was_open:
            self._loop.call_soon_threadsafe(self._running.cancel)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _keep_running(self, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]]) -> None:
        running = asyncio.current_task()
        assert running is not None
        with contextlib.suppress(asyncio.CancelledError):
            async with self._stack:
                started.set_result((asyncio.get_running_loop(), running))
                await asyncio.Event().wait()

    def _wait(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        if os.getpid() != self._process:
            raise ClientError("this client was connected by another process: connect one here")
        with self._lock:
            if not self._open:
                raise BusUnavailable("the client is closed")
            future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            while not wait([future], timeout=_SIGNALS_EVERY_S).done:
                pass
            return future.result()
        except CancelledError as error:
            raise BusUnavailable("the client was closed before the reply came") from error
        finally:
            future.cancel()
