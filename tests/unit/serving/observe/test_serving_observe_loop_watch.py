from __future__ import annotations

import asyncio
import time

import pytest

from orion_recall.serving.observe.observer import LoopWatch


async def test_a_loop_that_is_held_is_silent_and_heard_again_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orion_recall.serving.observe.observer._EVERY_S", 0.01)
    heart = LoopWatch()
    async with heart.running():
        await asyncio.sleep(0.05)
        time.sleep(0.3)
        assert heart.silent_s >= 0.3
        async with asyncio.timeout(30):
            while heart.silent_s > 0.1:
                await asyncio.sleep(0.01)
    stopped = heart.silent_s
    await asyncio.sleep(0.05)
    assert heart.silent_s > stopped
