from __future__ import annotations

import threading
import time

import pytest

from orion_recall.foreground import Foreground

LONG_S = 60.0


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
