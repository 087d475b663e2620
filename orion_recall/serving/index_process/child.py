"""The child process that holds a worker's embedded index: opens it, answers calls, and ends with the worker.

    python -m orion_recall.serving.index_process.child DESCRIPTOR        (of a socket to the worker)

Searches and reads run on the event loop, one after the other: the engine would let no other thread run meanwhile.
Writes run beside them, in threads, and yield to them and to the worker's queries.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from orion_recall.engines.disk_space import copy_space
from orion_recall.errors import OrionError, SourceError
from orion_recall.foreground import FOREGROUND, tune_for_serving
from orion_recall.index.caches import KeptViews
from orion_recall.index.embedded.index import TITLES, EdgeIndex
from orion_recall.index.engine_threads import InThisThread
from orion_recall.index.passages import OF
from orion_recall.models.embedder import Embedder
from orion_recall.models.opening import open_embedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.models.token_space import TokenVectors
from orion_recall.serving.index_process.messages import (
    Answer,
    Answers,
    Call,
    Calls,
    DenseSearch,
    EmbeddedQuestion,
    Foreground,
    Frames,
    IndexState,
    Logged,
    Opening,
    Packed,
    SearchedQuestion,
    Target,
)
from orion_recall.settings import Settings

log = logging.getLogger("orion_recall.sources")


class _ServedIndex(EdgeIndex):
    """The embedded index without caches of memories: its worker keeps what it read last."""

    def __init__(self, settings: Settings, embedder: Embedder, sparse: SparseEncoder) -> None:
        folder = settings.data_dir / "index"
        super().__init__(folder, embedder, sparse, room=copy_space("index", folder, settings.min_free_bytes))
        self._views = KeptViews(0)
        self._questions = embedder

    async def ask_question(self, text: str, search: DenseSearch | None) -> SearchedQuestion:
        """The vectors of a question, of its tokens where the embedder gives them, and what is nearest to it.

        Nothing is, not even an empty list, where no search is wanted or none can be made.
        """
        embedder, tokens = self._questions, None
        vector = await embedder.embed_query(text)
        if isinstance(embedder, TokenVectors) and embedder.token_space:
            tokens = await embedder.query_tokens(text)
        found = None
        if search is not None:
            with contextlib.suppress(OrionError):  # whoever then searches by the vector hears why
                found = Packed.of(await self.search_dense(vector.tolist(), *search))
        return SearchedQuestion(EmbeddedQuestion(vector, tokens), found)

    def _new_readers(self) -> InThisThread:
        return InThisThread("the index")

    def _owner(self) -> int:
        return os.getppid()  # the worker, with which this process ends


OpenEmbedder = Callable[[Settings], AbstractAsyncContextManager[Embedder]]


class IndexServer:
    """Answers the worker at the other end of a socket. `end` is called when that is gone."""

    def __init__(self, end: Callable[[], None], embedder: OpenEmbedder) -> None:
        self._frames, self._embedder = Frames(self._heard, end), embedder
        self._opening: asyncio.Future[Opening] = asyncio.get_running_loop().create_future()
        self._live: EdgeIndex | None = None
        self._build: EdgeIndex | None = None
        self._is_made = asyncio.Event()
        self._told: dict[Target, IndexState] = {}
        self._yields: Callable[[], None] | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self, worker: socket.socket) -> None:
        """Answers until it is cancelled."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._frames, sock=worker)
        settings, keywords, identity = await self._opening
        _log_to(lambda line: loop.call_soon_threadsafe(self._frames.send, line), settings.log_level)
        async with self._embedder(settings) as embedder:
            self._live = _ServedIndex(settings, embedder, SparseEncoder(keywords))
            if identity is not None:
                self._live.expect(identity)
            self._is_made.set()
            await asyncio.Event().wait()

    def _heard(self, told: object) -> None:
        if isinstance(told, Calls):
            task = asyncio.create_task(self._answer(told))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif isinstance(told, Foreground):
            self._yield(is_active=told.is_active)
        elif isinstance(told, Opening):
            self._opening.set_result(told)

    def _yield(self, *, is_active: bool) -> None:
        if self._yields is not None:
            self._yields()
        self._yields = FOREGROUND.begin() if is_active else None

    async def _answer(self, told: Calls) -> None:
        await self._is_made.wait()
        answers = [await self._answer_of(call) for call in told.calls]
        states: list[tuple[Target, IndexState]] = []
        try:
            states = self._changed_states()
        except Exception:
            log.exception("the state of the index could not be read")
        self._frames.send(Answers(answers, told.are_reads, states))

    async def _answer_of(self, call: Call) -> Answer:
        try:
            return Answer(call.number, await self._called(call))
        except OrionError as error:
            return Answer(call.number, None, error)
        except Exception as error:
            log.exception("the index could not answer %s", call.method)
            return Answer(call.number, None, SourceError(f"the index failed: {type(error).__name__}: {error}"))

    async def _called(self, call: Call) -> object:
        live = self._live
        assert live is not None
        match call.method:
            case "open" if call.target == "live":
                return await self._open(live)
            case "open":
                self._build = live.staged_rebuild()
                if self._build is None:
                    raise SourceError("the complete build of the index is gone")
                return await self._build.open()
            case "swap_in":
                assert self._build is not None
                result = await live.swap_in(self._build)
                self._build = None
                return result
            case "close" if call.target == "live":
                others = self._answering - {asyncio.current_task()}
                await asyncio.gather(*others, return_exceptions=True)
                return await live.close()
            case "close":
                built, self._build = self._build, None
                return await built.close() if built is not None else None
            case "expect":
                return self._target(call.target).expect(*call.arguments)
            case "search_sparse":
                found = await self._target(call.target).search_sparse(*call.arguments, **call.options)
                return [*map(Packed.of, found)]
            case "max_sim":
                return Packed.of((await self._target(call.target).max_sim(*call.arguments)).items())
            case method:
                return await getattr(self._target(call.target), method)(*call.arguments, **call.options)

    async def _open(self, live: EdgeIndex) -> None:
        await live.open()
        tune_for_serving()

    def _target(self, target: Target) -> EdgeIndex:
        index = self._live if target == "live" else self._build
        if index is None:
            raise SourceError("the complete build of the index is not open")
        return index

    def _changed_states(self) -> list[tuple[Target, IndexState]]:
        of: list[tuple[Target, EdgeIndex | None]] = [("live", self._live), ("build", self._build)]
        states: dict[Target, IndexState] = {target: _state(index) for target, index in of if index is not None}
        before, self._told = self._told, states
        return [(target, state) for target, state in states.items() if before.get(target) != state]


def _state(index: EdgeIndex) -> IndexState:
    fields = (TITLES, OF)
    try:
        has = frozenset(field for field in fields if index.has_values(field))
    except SourceError:  # it is not open, or refuses reads
        has = frozenset[str]()
    return IndexState(index.metadata, has)


class _Sender(logging.Handler):
    def __init__(self, send: Callable[[Logged], object]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._send(Logged(record.name, record.levelno, self.format(record)))


def _log_to(send: Callable[[Logged], object], level: str) -> None:
    logger = logging.getLogger("orion_recall")
    logger.handlers[:] = [_Sender(send)]
    logger.setLevel(level.upper())
    logger.propagate = False


def serve(descriptor: int, embedder: OpenEmbedder = open_embedder) -> None:
    """Answers the worker behind the socket's descriptor; the process ends with it. Signals are the worker's."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    async def until_the_end() -> None:
        # At once, whatever still runs: what was not saved comes again from the outbox.
        server = IndexServer(end=lambda: os._exit(0), embedder=embedder)
        await server.run(socket.socket(fileno=descriptor))

    asyncio.run(until_the_end())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
