from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from orion_recall.engines import engine
from orion_recall.engines.engine import Engine


class Revived(Engine):
    """It has died as often as the test says, and can be started again."""

    def __init__(self) -> None:
        self.deaths, self._started_at, self._child = 0, 0.0, None

    @property
    def name(self) -> str:
        return "valkey"

    @property
    def died(self) -> bool:
        return self.deaths > 0

    async def _revive(self) -> bool:
        self.deaths -= 1
        return True


async def test_a_restart_that_cannot_be_told_is_told_later_and_the_next_death_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_WATCH_S", 0.001)
    monkeypatch.setattr(engine, "_FIRST_WAIT_S", 0.001)
    told: list[Any] = []
    one = Revived()

    def on_restart() -> None:
        told.append(len(told) >= 2)
        if not told[-1]:
            raise OSError(errno.ENOSPC, "No space left on device")

    keeping = asyncio.create_task(one.keep_alive(on_restart))
    one.deaths = 1
    async with asyncio.timeout(60):
        while True not in told:
            await asyncio.sleep(0.001)
        one.deaths = 1
        while len(told) < 4:
            await asyncio.sleep(0.001)
    assert not keeping.done()
    keeping.cancel()
