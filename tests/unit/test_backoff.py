from __future__ import annotations

import asyncio

from orion_recall.tasks import Backoff


class Clock:
    """Takes sleeps, and passes at once."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float, until: asyncio.Event | None) -> None:
        self.slept_s.append(seconds)


async def test_waits_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    clock = Clock()
    backoff = Backoff(0.5, 3.0, sleep=clock.sleep, jitter=lambda: 1.0)
    assert backoff.is_first
    for _ in range(5):
        await backoff.wait()
    assert clock.slept_s == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert not backoff.is_first
    backoff.reset()
    assert (backoff.is_first, backoff.next_s) == (True, 0.5)
    await backoff.wait()
    assert clock.slept_s[-1] == 0.5
