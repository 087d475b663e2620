"""The process of an index as its worker sees it: started, spoken to, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable

from orion_recall.engines.launch import __file__ as launcher
from orion_recall.serving.index_process.frames import Frames

PROGRAM = "orion_recall.serving.index_process.child"
"""The module that serves an index."""
_END_S = 10.0


class ChildProcess:
    """A running process. It must be started on a thread that lives as long as it: the event loop's."""

    def __init__(self, process: Process, frames: Frames) -> None:
        self._process, self.frames = process, frames

    @classmethod
    async def start(cls, program: str, heard: Callable[[object], None], lost: Callable[[], None]) -> ChildProcess:
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
        return cls(process, frames)

    @property
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    async def wait(self) -> int:
        """The exit code, once it has ended; negative: the signal that ended it."""
        return await self._process.wait()

    async def end(self) -> None:
        """Ends it: it goes by itself when nobody speaks to it any more, and is killed if it does not."""
        self.frames.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Ends it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
