from __future__ import annotations

import asyncio
import threading
import time

from orion_recall.foreground import RightOfWay

LONG_S = 60.0


def test_nothing_waits_where_nobody_is_waited_for():
    road = RightOfWay()
    began = time.perf_counter()
    road.give_way(LONG_S)
    assert list(road.between([1, 2, 3], 1)) == [1, 2, 3]
    assert time.perf_counter() - began < LONG_S / 2


def test_what_can_wait_waits_until_the_last_has_passed():
    road, passed = RightOfWay(), threading.Event()

    def later() -> None:
        road.give_way(LONG_S)
        passed.set()

    with road.taken():
        with road.taken():
            waiting = threading.Thread(target=later)
            waiting.start()
        assert not passed.wait(0.05), "one is still under way"
    assert passed.wait(LONG_S / 2)
    waiting.join()


def test_the_priority_may_end_before_its_block_and_then_ends_once():
    road, passed = RightOfWay(), threading.Event()

    def later() -> None:
        road.give_way(LONG_S)
        passed.set()

    with road.taken() as release:
        waiting = threading.Thread(target=later)
        waiting.start()
        assert not passed.wait(0.05), "it is under way"
        release()
        release()
        assert passed.wait(LONG_S / 2)
    waiting.join()
    with road.taken():
        began = time.perf_counter()
        road.give_way(0.05)
        assert time.perf_counter() - began >= 0.05, "a release too many would let this pass"


def test_it_is_not_kept_waiting_for_ever():
    road = RightOfWay()
    with road.taken():
        began = time.perf_counter()
        assert list(road.between(range(5), 2)) == [0, 1, 2, 3, 4]
        assert time.perf_counter() - began >= 0.3, "three times the longest wait: after none, two and four pieces"


async def test_an_event_loop_goes_on_meanwhile():
    road, turns = RightOfWay(), 0
    with road.taken():
        pausing = asyncio.create_task(road.pause(LONG_S))
        for _ in range(5):
            await asyncio.sleep(0)
            turns += 1
        assert not pausing.done()
    async with asyncio.timeout(LONG_S / 2):
        await pausing
    assert turns == 5


def test_what_fails_lets_the_others_go_on():
    road = RightOfWay()
    try:
        with road.taken():
            raise ValueError
    except ValueError:
        pass
    began = time.perf_counter()
    road.give_way(LONG_S)
    assert time.perf_counter() - began < LONG_S / 2
