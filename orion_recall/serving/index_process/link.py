"""The link of a worker to the process of its index: calls and states, and a process that ends is started again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from orion_recall.backoff import Backoff
from orion_recall.errors import AnotherRecordsCopy, EngineError, ModelError, SourceError, TransientSourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.serving.index_process.calls import CallQueue
from orion_recall.serving.index_process.messages import Answers, Foreground, IndexState, Logged, Opening, Target
from orion_recall.serving.index_process.process import PROGRAM, ChildProcess
from orion_recall.serving.index_process.questions import DenseSearch, SearchedQuestion
from orion_recall.tasks import cancel

log = logging.getLogger("orion_recall.sources")

# What was not saved comes again from the outbox: nothing is worth a longer wait.
_CLOSE_S = 30.0
# First and longest wait before the process is started again.
_AGAIN_S = (0.2, 30.0)
_NOTHING = IndexState()


class IndexLink:
    """The running process of an index, its states, and how it is opened: `opening` is asked at every start.

    `restarted` is called when a process has ended, before another one answers.
    """

    def __init__(
        self, opening: Callable[[], Opening], restarted: Callable[[], None], *, program: str = PROGRAM
    ) -> None:
        self._opening, self._restarted, self._program = opening, restarted, program
        self._calls = CallQueue(self._send)
        self._states: dict[Target, IndexState] = {}
        self._process: ChildProcess | None = None
        self._is_open = False
        self._keeping: asyncio.Task[None] | None = None
        self._watching = contextlib.ExitStack()
        self._told_active = False
        self._working = 0
        self._why_not = "it is not open"
        self._is_closing = False
        # Until the copy is as far as it was, what it has lost may be found again.
        self._behind_until = 0

    @property
    def pid(self) -> int | None:
        """That of the process; None while there is none."""
        return self._process.pid if self._process is not None else None

    def state(self, target: Target) -> IndexState:
        """The state as it was told last."""
        return self._states.get(target, _NOTHING)

    async def open(self) -> None:
        """Starts the process and lets it open the index; the errors are those of the index.

        EngineError when the process ends meanwhile. After any error it is to be closed, or may be used.
        """
        loop = asyncio.get_running_loop()

        def told(_is_active: bool) -> None:
            if self._working:  # else there is nothing that could yield
                loop.call_soon_threadsafe(self._tell_foreground)

        self._is_closing = False
        self._watching.enter_context(FOREGROUND.watched(told))
        try:
            await self._start()
        except TransientSourceError as error:
            if self._process is None:
                raise EngineError("the process of the index has ended while it was started") from error
            raise

    async def close(self) -> None:
        """Lets the index close, and ends the process."""
        self._is_closing = True
        self._watching.close()
        if self._keeping is not None:
            await cancel(self._keeping)
            self._keeping = None
        if (process := self._process) is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self._calls.call("live", "close")
            except TimeoutError:
                log.warning("the process of the index (%d) did not close it in %g s: killed", process.pid, _CLOSE_S)
                process.kill()
            except (SourceError, EngineError, ModelError) as error:
                log.warning("the index was not closed in order: %s", error)
            await self._ended("it is closed")

    def check(self) -> None:
        """TransientSourceError while there is no process, or what it holds is behind what the one before held."""
        if not self._is_open:
            raise self._away()
        at = self.state("live").metadata
        if self._behind_until and (at is None or at.position < self._behind_until):
            raise TransientSourceError("the index is brought up to date after its process had ended")
        self._behind_until = 0

    async def read(self, method: str, *arguments: Any, **options: Any) -> Any:
        """What a read of the index in use gives, or raises."""
        self.check()
        return await self._calls.read(method, *arguments, **options)

    async def call(self, target: Target, method: str, *arguments: Any) -> Any:
        """What another method gives, or raises."""
        if not self._is_open:
            raise self._away()
        self._tell_foreground()
        self._working += 1
        try:
            return await self._calls.call(target, method, *arguments)
        finally:
            self._working -= 1

    def ask_question(self, text: str, search: DenseSearch | None) -> asyncio.Future[SearchedQuestion]:
        """The question embedded by the process, and what a search by its vector finds, where one is wanted.

        Without one the process may still be behind with its index.
        """
        if search is not None:
            self.check()
        elif not self._is_open:
            raise self._away()
        return self._calls.asked("live", "ask_question", text, search)

    async def _start(self) -> None:
        self._process, self._told_active = await self._new_process(), False
        if not self._process.frames.is_open:
            self._lost()
            raise self._away()
        self._send(self._opening())
        try:
            await self._calls.call("live", "open")
        except AnotherRecordsCopy:  # it is open, and refuses reads
            self._is_open = True
            raise
        self._is_open = True

    async def _new_process(self) -> ChildProcess:
        return await ChildProcess.start(self._program, self._heard, self._lost)

    async def _ended(self, why: str) -> None:
        """Ends the process."""
        self._why_not, self._is_open = why, False
        process, self._process = self._process, None
        self._calls.fail(self._away)
        if process is not None:
            await process.end()

    def _lost(self) -> None:
        """A process is gone: the one in use, if nobody has ended it."""
        process = self._process
        if process is None or process.frames.is_open:
            return
        at = self.state("live").metadata
        self._behind_until = max(self._behind_until, at.position if at is not None else 0)
        # Its state stays as it was told last, so that a copy never seems to be at the beginning.
        self._process, self._is_open = None, False
        self._why_not = "its process has ended" + ("" if self._is_closing else ", and is started again")
        self._calls.fail(self._away)
        self._restarted()
        if not self._is_closing and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._start_again(process))

    async def _start_again(self, former: ChildProcess) -> None:
        await former.end()
        code = await former.wait()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        log.warning("the process of the index (%d) %s: it is started again", former.pid, how)
        backoff = Backoff(*_AGAIN_S)
        while True:
            await backoff.wait()
            try:
                await self._start()
            except AnotherRecordsCopy:
                return
            except (SourceError, EngineError, ModelError, OSError) as error:
                log.warning("the index cannot be opened, and is tried again: %s", error)
                if self._process is not None:
                    await self._ended(str(error))
                continue
            log.info("the index is open again, in process %s", self.pid)
            return

    def _away(self) -> TransientSourceError:
        return TransientSourceError(f"the index cannot be asked: {self._why_not}")

    def _send(self, told: object) -> None:
        if self._process is not None:
            self._process.frames.send(told)

    def _heard(self, told: object) -> None:
        if isinstance(told, Answers):
            self._states.update(told.states)
            self._calls.answered(told)
        elif isinstance(told, Logged):
            logging.getLogger(told.logger).log(told.level, "%s", told.text)

    def _tell_foreground(self) -> None:
        if (is_active := FOREGROUND.is_active) is not self._told_active:
            self._told_active = is_active
            self._send(Foreground(is_active))
