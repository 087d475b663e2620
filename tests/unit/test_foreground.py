from __future__ import annotations

import asyncio
import threading
import time

import pytest

from orion_recall.foreground import Foreground

LONG_S = 60.0


def test_nothing_waits_where_no_foreground_work_is_active():
    foreground = Foreground()
    began = time.perf_counter()
    foreground.yield_to_foreground(LONG_S)
    assert list(foreground.throttled([1, 2, 3], 1)) == [1, 2, 3]
    assert time.perf_counter() - began < LONG_S / 2


def test_what_can_wait_waits_until_the_last_has_passed():
    foreground, passed = Foreground(), threading.Event()

    def later() -> None:
        foreground.yield_to_foreground(LONG_S)
        passed.set()

    with foreground.active():
        with foreground.active():
            waiting = threading.Thread(target=later)
            waiting.start()
        assert not passed.wait(0.05), "one is still under way"
    assert passed.wait(LONG_S / 2)
    waiting.join()


def test_the_priority_may_end_before_its_block_and_then_ends_once():
    foreground, passed = Foreground(), threading.Event()

    def later() -> None:
        foreground.yield_to_foreground(LONG_S)
        passed.set()

    with foreground.active() as release:
        waiting = threading.Thread(target=later)
        waiting.start()
        assert not passed.wait(0.05), "it is under way"
        release()
        release()
        assert passed.wait(LONG_S / 2)
    waiting.join()
    with foreground.active():
        began = time.perf_counter()
        foreground.yield_to_foreground(0.05)
        assert time.perf_counter() - began >= 0.05, "a release too many would let this pass"


def test_it_is_not_kept_waiting_for_ever():
    foreground = Foreground()
    with foreground.active():
        began = time.perf_counter()
        assert list(foreground.throttled(range(5), 2)) == [0, 1, 2, 3, 4]
        assert time.perf_counter() - began >= 0.3, "three times the longest wait: after none, two and four pieces"


async def test_an_event_loop_goes_on_meanwhile():
    foreground, turns = Foreground(), 0
    with foreground.active():
        pausing = asyncio.create_task(foreground.pause(LONG_S))
        for _ in range(5):
            await asyncio.sleep(0)
            turns += 1
        assert not pausing.done()
    async with asyncio.timeout(LONG_S / 2):
        await pausing
    assert turns == 5


def test_what_fails_lets_the_others_go_on():
    foreground = Foreground()
    try:
        with foreground.active():
            raise ValueError
    except ValueError:
        pass
    began = time.perf_counter()
    foreground.yield_to_foreground(LONG_S)
    assert time.perf_counter() - began < LONG_S / 2


class Waits(threading.Event):
    """An event that nobody waits for: it keeps for how long somebody would have."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return True


async def test_beside_recalls_without_a_gap_background_work_has_its_share(monkeypatch: pytest.MonkeyPatch):
    now, waits = [0.0], Waits()
    foreground = Foreground(clock=lambda: now[0])
    monkeypatch.setattr(foreground, "_idle", waits)

    async def asked() -> list[float | None]:
        waits.asked.clear()
        foreground.yield_to_foreground()
        await foreground.pause()
        foreground.yield_to_foreground(5.0)
        return list(waits.asked)

    with foreground.active():
        now[0] = 0.9
        with foreground.active():  # the next one begins before the last has ended
            assert await asked() == [0.1, 0.1, 5.0], "so long recalls come first"
            now[0] = 1.1
            assert await asked() == [0.02, 0.02, 5.0], "but for work that can wait for a real gap"
    with foreground.active():
        assert await asked() == [0.1, 0.1, 5.0], "there was a gap: it counts anew"
