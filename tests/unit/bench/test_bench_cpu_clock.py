from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orion_recall.recall import pipeline, search_pass
from orion_recall.recall.bundle import lines
from tests.bench.cpu_clock import BETWEEN, Clock, clocked_recall


class _Time:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def passes(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_stage_within_another_is_taken_off_it_and_all_of_them_add_up() -> None:
    time = _Time()
    clock = Clock(time)

    with clock.measuring() as spent:
        time.passes(1)
        with clock.stage("outer"):
            time.passes(2)
            with clock.stage("inner"):
                time.passes(4)
            time.passes(8)
        with clock.stage("inner"):
            time.passes(16)

    assert spent == {BETWEEN: 1000, "outer": 10_000, "inner": 20_000}


def test_every_measurement_begins_anew_and_nothing_is_counted_between_two() -> None:
    time = _Time()
    clock = Clock(time)
    called = clock.called("stage", time.passes)

    with clock.measuring() as first:
        called(1)
    called(5)
    with clock.measuring() as second:
        called(2)

    assert not clock.is_on
    assert first["stage"] == 1000
    assert second["stage"] == 2000


def test_a_stage_that_fails_ends_and_what_comes_after_it_is_not_its() -> None:
    time = _Time()
    clock = Clock(time)

    def fails() -> None:
        time.passes(1)
        raise ValueError("as it should")

    with clock.measuring() as spent:
        with pytest.raises(ValueError, match="as it should"):
            clock.called("fails", fails)()
        time.passes(3)

    assert spent == {"fails": 1000, BETWEEN: 3000}


async def test_stages_that_would_run_side_by_side_run_one_after_another() -> None:
    time = _Time()
    clock = Clock(time)
    under_way: list[str] = []

    async def arm(name: str, seconds: float) -> str:
        under_way.append(name)
        assert under_way == [name]
        for _ in range(3):
            await asyncio.sleep(0)
        time.passes(seconds)
        under_way.remove(name)
        return name

    async with asyncio.timeout(30):
        with clock.measuring() as spent:
            arms = [clock.awaited(name, arm)(name, seconds) for name, seconds in (("a", 1), ("b", 2))]
            assert await asyncio.gather(*arms) == ["a", "b"]

    assert (spent["a"], spent["b"]) == (1000, 2000)


async def test_an_arm_that_a_stage_calls_is_part_of_that_stage() -> None:
    time = _Time()
    clock = Clock(time)

    async def arm() -> None:
        time.passes(1)

    async def follows() -> None:
        time.passes(2)
        await clock.awaited("arm", arm)()

    async with asyncio.timeout(30):
        with clock.measuring() as spent:
            await clock.awaited("follows", follows)()

    assert spent["follows"] == 3000
    assert "arm" not in spent


def test_the_path_of_a_query_is_clocked_within_the_block_and_as_it_was_after_it() -> None:
    def now() -> list[Callable[..., object]]:
        return [pipeline.understand, search_pass.fetch, lines.snippet]

    before = now()

    with clocked_recall(Clock()):
        assert all(one is not other for one, other in zip(now(), before, strict=True))

    assert now() == before
