from __future__ import annotations

import asyncio
import logging

import pytest

from orion_recall.errors import SourceError
from orion_recall.tasks import both, cancel, errors_logged, in_time, outcomes

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


def test_an_error_of_what_follows_is_logged_and_ends_there(caplog: pytest.LogCaptureFixture) -> None:
    with errors_logged("entry 5-0 is answered; what follows failed"):
        raise ZeroDivisionError(SECRET)
    (record,) = caplog.records
    assert record.getMessage().startswith("entry 5-0 is answered; what follows failed: ZeroDivisionError")
    assert SECRET not in record.getMessage()


async def test_what_comes_too_late_is_ended_and_told() -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        await in_time(_never(ended), 0.001)
    assert ended == ["ended"]


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
