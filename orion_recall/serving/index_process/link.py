"""The link of a worker to the process of its index: calls and states, and a process that ends is started again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orion_recall.engines.engine import how_it_ended
from orion_recall.engines.launch import __file__ as launcher
from orion_recall.errors import AnotherRecordsCopy, EngineError, ModelError, SourceError, TransientSourceError
from orion_recall.foreground import FOREGROUND
from orion_recall.serving.index_process.messages import (
    Answers,
    Call,
    Calls,
    DenseSearch,
    Foreground,
    Frames,
    IndexState,
    Logged,
    Opening,
    SearchedQuestion,
    Target,
)
from orion_recall.tasks import Backoff, cancel, note_waited

log = logging.getLogger("orion_recall.sources")


# A frame of reads is answered whole: more of them would wait for each other longer than for their own frames.
_MOST_TOGETHER = 4
# While one is answered the next one is there.
_FRAMES_OF_READS = 2


@dataclass(slots=True, eq=False)
class _Waiting:
    call: Call
    future: asyncio.Future[Any]
    is_sent: bool = False


class CallQueue:
    """The calls that are to be sent or answered; `send` sends a frame. Call it on the event loop."""

    def __init__(self, send: Callable[[object], None]) -> None:
        self._send = send
        self._reads: deque[_Waiting] = deque()
        self._sent: dict[int, _Waiting] = {}
        self._frames_of_reads = 0
        self._is_due = False
        self._number = 0
        self._answered = 0

    async def read(self, method: str, *arguments: Any, **options: Any) -> Any:
        waiting = self._waiting("live", method, arguments, options)
        self._reads.append(waiting)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send_reads)
        before = self._answered
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if not waiting.is_sent and self._answered > before:
                note_waited()
            raise

    def asked(self, target: Target, method: str, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """As `read`, of what takes long: it is sent at once, and answered beside the reads."""
        waiting = self._waiting(target, method, arguments, options)
        self._send_together([waiting], are_reads=False)
        return waiting.future

    def answered(self, told: Answers) -> None:
        """Gives the answers of one frame to those who wait for them, and sends the next reads."""
        self._frames_of_reads -= told.are_reads
        for number, value, error in told.answers:
            future = self._sent.pop(number).future
            self._answered += 1
            if future.done():  # nobody waits for it any more
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        self._send_reads()

    def fail(self, error: Callable[[], Exception]) -> None:
        """Every call without an answer fails, each with an error of its own."""
        unanswered = [*self._sent.values(), *self._reads]
        self._sent.clear()
        self._reads.clear()
        self._frames_of_reads = 0
        for one in unanswered:
            if not one.future.done():
                one.future.set_exception(error())

    def _waiting(
        self, target: Target, method: str, arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> _Waiting:
        self._number += 1
        call = Call(self._number, target, method, arguments, options)
        return _Waiting(call, asyncio.get_running_loop().create_future())

    def _send_reads(self) -> None:
        self._is_due = False
        while self._reads and self._frames_of_reads < _FRAMES_OF_READS:
            together: list[_Waiting] = []
            while self._reads and len(together) < _MOST_TOGETHER:
                if not (one := self._reads.popleft()).future.done():
                    together.append(one)
            if together:
                self._frames_of_reads += 1
                self._send_together(together, are_reads=True)

    def _send_together(self, together: list[_Waiting], *, are_reads: bool) -> None:
        for one in together:
            one.is_sent = True
            self._sent[one.call.number] = one
        self._send(Calls([one.call for one in together], are_reads))


PROGRAM = "orion_recall.serving.index_process.child"
"""The module that serves an index."""
_END_S = 10.0


async def _started(
    program: str, heard: Callable[[object], None], lost: Callable[[], None]
) -> tuple[Process, Frames]:
    """Starts a module. `heard` is called with each object that it sends, `lost` once when it is gone.

    A session of its own keeps a Ctrl-C in the terminal from reaching it before the worker. SIGKILL is what the
    kernel sends it when the worker is gone: then the folder is free at once for the next start.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launcher, str(os.getpid()), "-", str(int(signal.SIGKILL)), "-"),
            *(sys.executable, "-m", program, str(theirs.fileno())),
            stdin=DEVNULL,
            stdout=DEVNULL,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    frames = Frames(heard, lost)
    await asyncio.get_running_loop().create_connection(lambda: frames, sock=ours)
    return process, frames


async def _end(process: Process, frames: Frames) -> int:
    """Its exit code: it goes by itself when nobody speaks to it any more, and is killed if it does not."""
    frames.close()
    try:
        async with asyncio.timeout(_END_S):
            return await process.wait()
    except TimeoutError:
        _kill(process)
        return await process.wait()


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


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
        self._child: tuple[Process, Frames] | None = None
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
        return self._child[0].pid if self._child is not None else None

    def state(self, target: Target) -> IndexState:
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
            if self._child is None:
                raise EngineError("the process of the index has ended while it was started") from error
            raise

    async def close(self) -> None:
        """Lets the index close, and ends the process."""
        self._is_closing = True
        self._watching.close()
        if self._keeping is not None:
            await cancel(self._keeping)
            self._keeping = None
        if self._child is not None:
            process = self._child[0]
            try:
                async with asyncio.timeout(_CLOSE_S):
                    await self._calls.asked("live", "close")
            except TimeoutError:
                log.warning("the process of the index (%d) did not close it in %g s: killed", process.pid, _CLOSE_S)
                _kill(process)
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
        self.check()
        return await self._calls.read(method, *arguments, **options)

    async def call(self, target: Target, method: str, *arguments: Any) -> Any:
        if not self._is_open:
            raise self._away()
        self._tell_foreground()
        self._working += 1
        try:
            return await self._calls.asked(target, method, *arguments)
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
        self._child = await _started(self._program, self._heard, self._lost)
        self._told_active = False
        if not self._child[1].is_open:
            self._lost()
            raise self._away()
        self._send(self._opening())
        try:
            await self._calls.asked("live", "open")
        except AnotherRecordsCopy:  # it is open, and refuses reads
            self._is_open = True
            raise
        self._is_open = True

    async def _ended(self, why: str) -> None:
        self._why_not, self._is_open = why, False
        child, self._child = self._child, None
        self._calls.fail(self._away)
        if child is not None:
            await _end(*child)

    def _lost(self) -> None:
        child = self._child
        if child is None or child[1].is_open:
            return
        at = self.state("live").metadata
        self._behind_until = max(self._behind_until, at.position if at is not None else 0)
        # Its state stays as it was told last, so that a copy never seems to be at the beginning.
        self._child, self._is_open = None, False
        self._why_not = "its process has ended" + ("" if self._is_closing else ", and is started again")
        self._calls.fail(self._away)
        self._restarted()
        if not self._is_closing and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._start_again(*child))

    async def _start_again(self, former: Process, frames: Frames) -> None:
        code = await _end(former, frames)
        log.warning("the process of the index (%d) %s: it is started again", former.pid, how_it_ended(code))
        backoff = Backoff(*_AGAIN_S)
        while True:
            await backoff.wait()
            try:
                await self._start()
            except AnotherRecordsCopy:
                return
            except (SourceError, EngineError, ModelError, OSError) as error:
                log.warning("the index cannot be opened, and is tried again: %s", error)
                if self._child is not None:
                    await self._ended(str(error))
                continue
            log.info("the index is open again, in process %s", self.pid)
            return

    def _away(self) -> TransientSourceError:
        return TransientSourceError(f"the index cannot be asked: {self._why_not}")

    def _send(self, told: object) -> None:
        if self._child is not None:
            self._child[1].send(told)

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
