"""The consumer loop with a queue: it reads ahead, takes what the queue says, and turns away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop, Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.errors import Overloaded
from tests.unit.bus.test_bus_consumer_loop import FakeIntake, Handler, give, until

QUICK = ConsumerLimits(concurrency=2, refresh_ms=1, claim_idle_ms=5)


class Stack:
    """A queue of three whose newest comes first; what is beyond is turned away, and `doomed` at its turn."""

    def __init__(self) -> None:
        self.pause_s = 0.001
        self.slots, self.waiting, self.doomed = 2, list[Entry](), set[str]()
        self.ended_busy: list[bool] = []

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.waiting]

    def put(self, entry: Entry, *, first: bool = False) -> list[Turned]:
        self.waiting.append(entry)
        return [turned(self.waiting.pop(0))] if len(self.waiting) > 3 else []

    def take(self) -> Entry | Turned | None:
        if not self.waiting:
            return None
        found = self.waiting.pop()
        return turned(found) if found.id in self.doomed else found

    def ended(self, seconds: float, *, is_busy: bool) -> None:
        self.ended_busy.append(is_busy)

    def loop_was_late(self, seconds: float) -> None: ...


def turned(one: Entry) -> Turned:
    return Turned(entry=one, error=Overloaded("overloaded", retry_after_ms=100))


class Scene:
    def __init__(self) -> None:
        self.intake, self.handler, self.queue = FakeIntake(), Handler(), Stack()
        self.turned, self.batches = list[str](), list[int]()
        self.answered = asyncio.Event()
        self.answered.set()

    async def turn_away(self, turned: Sequence[Turned]) -> None:
        await self.answered.wait()
        self.turned += [one.entry.id for one in turned]
        self.batches.append(len(turned))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[tuple[ConsumerLoop, asyncio.Task[None]]]:
        loop = ConsumerLoop(
            self.intake, lambda one: self.handler(one), QUICK, queue=self.queue, turn_away=self.turn_away
        )
        task = asyncio.create_task(loop.run())
        yield loop, task
        self.handler.gate.set()
        loop.stop()
        await task


@pytest.fixture
def scene() -> Scene:
    return Scene()


def begun(scene: Scene, *names: str) -> Callable[[], bool]:
    return lambda: scene.handler.begun == list(names)


async def test_while_all_slots_are_taken_entries_are_read_ahead_and_taken_as_the_queue_says(scene: Scene) -> None:
    give(scene.intake, "a", "b", "c", "d", "e")
    async with scene.running() as (loop, _):
        await until(lambda: loop.waiting == 3, "what has no slot waits")
        assert scene.handler.begun == ["a", "b"]
        scene.handler.gate.set()
        await until(begun(scene, "a", "b", "e", "d", "c"), "the queue decides who is next")
    assert scene.queue.ended_busy == [True, True, True, True, False]


async def test_what_is_doomed_at_its_turn_is_turned_away_and_the_next_has_the_slot(scene: Scene) -> None:
    scene.queue.doomed = {"d", "e"}
    give(scene.intake, *"abcde")
    async with scene.running() as (loop, _):
        await until(lambda: loop.waiting == 3, "three wait")
        scene.handler.gate.set()
        await until(begun(scene, "a", "b", "c"), "c has the slot")
        assert sorted(scene.turned) == ["d", "e"]


async def test_what_waits_and_what_is_being_turned_away_is_refreshed_like_what_is_in_flight(scene: Scene) -> None:
    scene.answered.clear()
    give(scene.intake, *"abcdef")
    async with scene.running():
        await until(lambda: scene.intake.refreshed[-1:] == [frozenset("abcdef")], "all that is held is refreshed")
        scene.answered.set()


async def test_stopping_finishes_what_waits_too_and_takes_nothing_more(scene: Scene) -> None:
    give(scene.intake, *"abcd")
    async with scene.running() as (loop, task):
        await until(lambda: loop.waiting == 2, "two wait")
        loop.stop()
        give(scene.intake, "late")
        scene.handler.gate.set()
        await task
        assert sorted(scene.handler.ended) == ["a", "b", "c", "d"]
        assert scene.intake.new.qsize() == 1


async def test_a_cancelled_loop_begins_nothing_more_and_leaves_what_waits_pending(scene: Scene) -> None:
    give(scene.intake, *"abcd")
    loop = ConsumerLoop(
        scene.intake, lambda one: scene.handler(one), QUICK, queue=scene.queue, turn_away=scene.turn_away
    )
    task = asyncio.create_task(loop.run())
    await until(lambda: loop.waiting == 2, "two wait")
    task.cancel()
    await asyncio.sleep(0)
    scene.handler.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (scene.handler.ended, loop.waiting, scene.intake.left) == (["a", "b"], 2, 1)


async def test_what_was_taken_over_counts_as_delivered_when_its_turn_comes_and_not_before(scene: Scene) -> None:
    give(scene.intake, "a", "b")
    async with scene.running() as (loop, _):
        await until(lambda: loop.in_flight == 2, "the slots are taken")
        scene.intake.orphans = [Entry(id="orphan", fields={}, deliveries=2)]
        await until(lambda: loop.waiting == 1, "the orphan waits")
        assert scene.intake.begun == [] and loop.claimed == 1
        scene.handler.gate.set()
        await until(lambda: "orphan" in scene.handler.ended, "the orphan has its turn")
    assert scene.intake.begun == ["orphan"]


async def test_what_cannot_be_turned_away_stays_pending_and_is_named(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(turned: Sequence[Turned]) -> None:
        raise ZeroDivisionError(f"no refusal of {len(turned)}")

    scene.turn_away = broken
    give(scene.intake, *"abcdefg")
    async with scene.running():
        await until(lambda: "stays pending" in caplog.text, "it is told")
        await until(lambda: scene.intake.refreshed[-1:] == [frozenset("abefg")], "it is no longer held")
    assert "c, d" in caplog.text
