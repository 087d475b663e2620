"""Consumers: entries are read in a group, wait in a queue, and are handled in slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop, Turned
from orion_recall.bus.group_reader import Entry, GroupReader, decoded
from orion_recall.errors import Overloaded


class LargeEntries:
    """A stream without an end whose entries have so many bytes; notes how many are asked for."""

    def __init__(self) -> None:
        self.size, self.asked = 0, list[int]()

    async def xreadgroup(self, *_: object, count: int, **__: object) -> list[Any]:
        self.asked.append(count)
        return [(b"s", [(b"%d-0" % number, {b"envelope": b"x" * self.size}) for number in range(count)])]


async def test_after_large_entries_fewer_are_read_at_once() -> None:
    redis = LargeEntries()
    reader = GroupReader(cast("Redis", redis), cast("Redis", redis), stream="s", group="g", consumer="c")
    for redis.size in (100, 2 << 20, 20 << 20, 100, 100):
        await reader.read(10)
    assert redis.asked == [10, 10, 4, 1, 10]


def test_a_name_that_is_no_utf8_is_read_all_the_same() -> None:
    assert [decoded(name) for name in (b"w-1", "w-1", b"w\xff")] == ["w-1", "w-1", "w\N{REPLACEMENT CHARACTER}"]


QUICK = ConsumerLimits(concurrency=2, refresh_ms=1, claim_idle_ms=5)


class FakeIntake:
    """Hands out what it is given; `fails` names the call that raises."""

    def __init__(self) -> None:
        self.new: asyncio.Queue[Entry] = asyncio.Queue()
        self.orphans: list[Entry] = []
        self.fails = ""
        self.asked: list[int] = []
        self.asked_ahead: list[int] = []
        self.begun: list[str] = []
        self.refreshed: list[frozenset[str]] = []
        self.left = 0

    async def create_group(self) -> None: ...

    async def read(self, count: int) -> list[Entry]:
        self._fail("read")
        self.asked.append(count)
        try:
            async with asyncio.timeout(0.02):
                return [await self.new.get()]
        except TimeoutError:
            return []

    async def read_waiting(self, count: int) -> list[Entry]:
        self._fail("read_waiting")
        self.asked_ahead.append(count)
        return [self.new.get_nowait() for _ in range(min(count, self.new.qsize()))]

    async def take_over(self, count: int, min_idle_ms: int) -> list[Entry]:
        return await self.claim(count, min_idle_ms)

    async def begin(self, entry: Entry) -> None:
        self.begun.append(entry.id)

    async def claim(self, count: int, min_idle_ms: int) -> list[Entry]:
        self._fail("claim")
        claimed, self.orphans = self.orphans[:count], self.orphans[count:]
        return claimed

    async def refresh(self, ids: frozenset[str]) -> None:
        self._fail("refresh")
        self.refreshed.append(ids)

    async def leave(self) -> None:
        self.left += 1

    def _fail(self, call: str) -> None:
        if call == self.fails:
            raise ZeroDivisionError(call)


class Handler:
    """Handles entries while its gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def __call__(self, entry: Entry) -> None:
        self.begun.append(entry.id)
        await self.gate.wait()
        if entry.id == "bad":
            raise ZeroDivisionError("a bad entry")
        self.ended.append(entry.id)


def entry(name: str) -> Entry:
    return Entry(id=name, fields={})


async def until(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
    assert condition(), what


@asynccontextmanager
async def running(
    intake: FakeIntake, handle: Callable[[Entry], Awaitable[None]], limits: ConsumerLimits = QUICK
) -> AsyncGenerator[tuple[ConsumerLoop, asyncio.Task[None]]]:
    async def handled(taken: Entry) -> None:
        await handle(taken)

    loop = ConsumerLoop(cast("GroupReader", intake), handled, limits)
    task = asyncio.create_task(loop.run())
    yield loop, task
    loop.stop()
    await task


@pytest.fixture
def intake() -> FakeIntake:
    return FakeIntake()


@pytest.fixture
def handler() -> Handler:
    return Handler()


def give(intake: FakeIntake, *names: str) -> None:
    for name in names:
        intake.new.put_nowait(entry(name))


async def test_entries_in_flight_are_never_more_than_one_beyond_the_limit_however_many_others_have_left(
    intake: FakeIntake,
) -> None:
    gate, at_once, ended = asyncio.Event(), [0], list[str]()

    async def handle(taken: Entry) -> None:
        at_once.append(at_once[-1] + 1)
        await gate.wait()
        await asyncio.sleep(0)
        at_once.append(at_once[-1] - 1)
        ended.append(taken.id)

    intake.orphans = [entry(f"left-{number}") for number in range(20)]
    give(intake, *(f"new-{number}" for number in range(20)))
    async with running(intake, handle) as (loop, _):
        await until(lambda: loop.in_flight > QUICK.concurrency, "one more than the limit is in flight")
        refreshed = len(intake.refreshed)
        await until(lambda: len(intake.refreshed) > refreshed + 50, "others' entries could have been claimed often")
        assert loop.in_flight == QUICK.concurrency + 1
        gate.set()
        await until(lambda: len(ended) == 40, "every entry is handled")
    assert max(at_once) == QUICK.concurrency + 1
    assert loop.claimed == 20


async def test_an_entry_in_flight_that_is_claimed_again_is_not_handled_twice(
    intake: FakeIntake, handler: Handler
) -> None:
    give(intake, "a")
    async with running(intake, handler) as (loop, _):
        await until(lambda: loop.in_flight == 1, "a is in flight")
        intake.orphans = [entry("a")]
        await until(lambda: not intake.orphans, "it is claimed")
        handler.gate.set()
        await until(lambda: loop.in_flight == 0, "all is done")
        assert handler.begun == ["a"]
        assert loop.claimed == 0


@pytest.mark.parametrize("call", ["read", "claim", "refresh"])
async def test_a_loop_that_breaks_ends_the_server_with_its_error_after_what_is_held(
    call: str, intake: FakeIntake, handler: Handler
) -> None:
    give(intake, "a")
    loop = ConsumerLoop(cast("GroupReader", intake), lambda taken: handler(taken), QUICK)
    task = asyncio.create_task(loop.run())
    await until(lambda: loop.in_flight == 1, "a is in flight")
    intake.fails = call
    await until(lambda: loop._stopping.is_set(), "it stops")  # pyright: ignore[reportPrivateUsage]
    assert not task.done()
    handler.gate.set()
    with pytest.raises(ZeroDivisionError, match=call):
        await task
    assert (handler.ended, intake.left) == (["a"], 1)


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
            cast("GroupReader", self.intake),
            lambda one: self.handler(one),
            QUICK,
            queue=self.queue,
            turn_away=self.turn_away,
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
