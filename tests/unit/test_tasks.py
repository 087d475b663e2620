"""Tasks, backoff, and the priority of recalls."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from orion_recall.errors import SourceError
from orion_recall.foreground import Foreground
from orion_recall.tasks import Backoff, both, cancel, outcomes

SECRET = "what the doctor said"


async def _fails(error: Exception) -> int:
    raise error


async def _seven() -> int:
    return 7


async def test_cancelled_tasks_are_waited_for_until_they_have_ended() -> None:
    ended: list[int] = []

    async def slow_to_end(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    tasks = [asyncio.create_task(slow_to_end(number)) for number in range(3)]
    await asyncio.sleep(0)
    await cancel(*tasks)
    assert sorted(ended) == [0, 1, 2]
    assert all(task.cancelled() for task in tasks)


async def test_what_a_task_raises_instead_of_ending_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def breaks() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError(SECRET)

    task = asyncio.create_task(breaks())
    await asyncio.sleep(0)
    await cancel(task)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "ZeroDivisionError" in record.getMessage()
    assert "in breaks" in record.getMessage(), "the traceback"
    assert SECRET not in record.getMessage()


async def test_every_outcome_is_given_and_only_what_nobody_has_foreseen_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreseen, unforeseen = SourceError("away"), KeyError(SECRET)
    assert await outcomes("a look failed", _seven(), _fails(foreseen), _fails(unforeseen)) == [
        7,
        foreseen,
        unforeseen,
    ]
    (record,) = caplog.records
    assert record.getMessage().startswith("a look failed: KeyError")
    assert "in _fails" in record.getMessage()
    assert SECRET not in record.getMessage()


@pytest.mark.parametrize("failing", ["first", "second"])
async def test_when_one_of_both_fails_the_other_is_not_left_running(failing: str) -> None:
    async def breaks() -> int:
        await asyncio.sleep(0)
        raise SourceError("gone")

    async def waits_briefly() -> None:
        await asyncio.sleep(0)

    async def waits_for_ever() -> bool:
        return await asyncio.Event().wait()

    pair = both(breaks(), waits_briefly()) if failing == "first" else both(waits_for_ever(), breaks())
    with pytest.raises(SourceError, match="gone"):
        await pair
    assert not [task for task in asyncio.all_tasks() if "waits" in repr(task.get_coro())]


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
