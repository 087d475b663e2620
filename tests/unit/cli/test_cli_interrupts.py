from __future__ import annotations

import asyncio
import os
import signal

import pytest

from orion_recall.cli.interrupts import interrupted_once


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_the_block_and_others_do_not_disturb_its_cleaning_up(first: signal.Signals) -> None:
    done: list[str] = []

    async def command() -> None:
        with interrupted_once():
            try:
                os.kill(os.getpid(), first)
                await asyncio.Event().wait()
            finally:
                for other in (signal.SIGINT, signal.SIGTERM):
                    os.kill(os.getpid(), other)
                    await asyncio.sleep(0)  # the loop hears of it
                    await asyncio.to_thread(done.append, "cleaned up")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(command())
    assert done == ["cleaned up"] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
