"""Calls of a worker to the process of its index: reads in turn and a few at a time, what takes long at once.

Reads of one turn of the event loop go together. Few frames of them are on their way at a time, so that a read whose
query has ended is never sent, and one that waited for its turn can say so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orion_recall.serving.index_process.messages import Answers, Call, Calls, Target
from orion_recall.tasks import note_waited

# A frame of reads is answered whole: more of them would wait for each other longer than for their own frames.
_MOST_TOGETHER = 4
# While one is answered the next one is there.
_FRAMES_OF_READS = 2


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call, and who waits for its answer."""

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
        """What the method of the index in use gives, or raises."""
        waiting = self._waiting("live", method, arguments, options)
        self._reads.append(waiting)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send_due)
        before = self._answered
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if not waiting.is_sent and self._answered > before:
                note_waited()
            raise

    async def call(self, target: Target, method: str, *arguments: Any, **options: Any) -> Any:
        """As `read`, of what takes long: it is sent at once, and answered beside the reads."""
        return await self.asked(target, method, *arguments, **options)

    def asked(self, target: Target, method: str, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """As `call`: the future of its answer, which needs no task."""
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

    def _send_due(self) -> None:
        self._is_due = False
        self._send_reads()

    def _send_reads(self) -> None:
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
