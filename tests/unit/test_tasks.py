from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from orion_recall.errors import SourceError
from orion_recall.tasks import both, cancel, errors_logged, in_time, outcomes, sleep

SECRET = "what the doctor said"


async def _fails(error: Exception) -> int:
    raise error


async def _seven() -> int:
    return 7


async def _never(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


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


async def test_the_error_of_a_task_that_had_ended_before_is_left_to_whoever_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.create_task(_fails(ZeroDivisionError()))
    await asyncio.wait([task])
    await cancel(task)
    assert caplog.records == []
    with pytest.raises(ZeroDivisionError):
        await task


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


async def test_being_cancelled_is_no_outcome() -> None:
    waiting = asyncio.create_task(outcomes("a look failed", asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_an_error_of_what_follows_is_logged_and_ends_there(caplog: pytest.LogCaptureFixture) -> None:
    with errors_logged("entry 5-0 is answered; what follows failed"):
        raise ZeroDivisionError(SECRET)
    (record,) = caplog.records
    assert record.getMessage().startswith("entry 5-0 is answered; what follows failed: ZeroDivisionError")
    assert SECRET not in record.getMessage()


async def test_a_sleep_says_whether_the_event_was_set_before_it_was_over() -> None:
    event = asyncio.Event()
    assert not await sleep(0.001)
    assert not await sleep(0.001, event)
    event.set()
    assert await sleep(60, event)


async def test_what_need_not_wait_is_given_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    here, timer = asyncio.current_task(), asyncio.timeout

    def no_timer(seconds: float) -> asyncio.Timeout:
        """Of this test alone: services that run beside it on the loop make timers of their own."""
        assert asyncio.current_task() is not here, "a timer was made"
        return timer(seconds)

    monkeypatch.setattr(asyncio, "timeout", no_timer)
    assert await in_time(_seven(), 1.0) == 7
    with pytest.raises(SourceError, match="gone"):
        await in_time(_fails(SourceError("gone")), 1.0)


async def test_what_waits_is_given_when_it_has_come_and_its_errors_are_its_own() -> None:
    async def later(error: Exception | None = None) -> int:
        for _ in range(3):
            await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        if error is not None:
            raise error
        return 7

    assert await in_time(later(), 60.0) == 7
    with pytest.raises(SourceError, match="gone"):
        await in_time(later(SourceError("gone")), 60.0)


async def test_what_comes_too_late_is_ended_and_told() -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        await in_time(_never(ended), 0.001)
    assert ended == ["ended"]


async def test_a_cancellation_reaches_what_is_waited_for() -> None:
    ended: list[str] = []
    task = asyncio.create_task(in_time(_never(ended), 60.0))
    await asyncio.sleep(0)
    await cancel(task)
    assert ended == ["ended"]
    assert task.cancelled()


async def test_both_are_under_way_at_once() -> None:
    met = asyncio.Barrier(2)

    async def side(name: str) -> str:
        await met.wait()
        return name

    async with asyncio.timeout(60):
        assert await both(side("first"), side("second")) == ("first", "second")


async def test_where_the_second_waits_for_nothing_the_first_needs_no_task() -> None:
    async def own_task() -> asyncio.Task[object] | None:
        await asyncio.sleep(0)
        return asyncio.current_task()

    assert await both(own_task(), _seven()) == (asyncio.current_task(), 7)
    never = own_task()
    with pytest.raises(SourceError, match="gone"):
        await both(never, _fails(SourceError("gone")))
    assert never.cr_frame is None, "it is closed, and nobody has to wait for it"


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


async def test_of_two_errors_one_is_told_and_none_is_reported_as_unheard():
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told))

    async def breaks(why: str, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise SourceError(why)

    with pytest.raises(SourceError, match="second"):
        await both(breaks("first", 1), breaks("second", 5))
    gc.collect()
    assert unheard == []
