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


async def test_a_wait_is_between_half_and_all_of_its_length() -> None:
    clock = Clock()
    await Backoff(1.0, 1.0, sleep=clock.sleep, jitter=lambda: 0.0).wait()
    assert clock.slept_s == [0.5]
    backoff = Backoff(1.0, 1.0, sleep=clock.sleep)
    for _ in range(100):
        await backoff.wait()
    assert all(0.5 <= seconds <= 1.0 for seconds in clock.slept_s)
    assert len(set(clock.slept_s)) > 2, "two that lost the same server do not wait alike"


async def test_a_stop_event_ends_a_wait() -> None:
    stop = asyncio.Event()
    waiting = asyncio.create_task(Backoff(60.0, 60.0).wait(stop))
    await asyncio.sleep(0)
    assert not waiting.done()
    stop.set()
    async with asyncio.timeout(5):
        await waiting
