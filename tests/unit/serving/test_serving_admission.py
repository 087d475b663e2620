"""Admission: which queries are taken, in which order, and which are refused in time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.keys import Caller
from orion_recall.serving.query_queue import Admission, FairQueue, QueryQueue
from orion_recall.settings import Settings


class Measured:
    """An admission on a clock that is set by hand."""

    def __init__(self, most_slots: int = 10, deadline_s: float = 2.0) -> None:
        self.now = 0.0
        self.admission = Admission(most_slots=most_slots, deadline_s=deadline_s, clock=lambda: self.now)

    def answers(
        self, count: int, *, each_s: float, every_s: float, lag_s: float = 0.0, is_busy: bool = True
    ) -> None:
        for _ in range(count):
            self.now += every_s
            self.admission.loop_was_late(lag_s)
            self.admission.ended(each_s, is_busy=is_busy)


def test_while_the_processor_is_short_fewer_run_at_once_and_all_again_when_it_is_not() -> None:
    measured = Measured()
    measured.answers(300, each_s=1.4, every_s=0.14, lag_s=0.1)
    assert measured.admission.slots == 3, "three take 0.42 s together, a quarter of the deadline is 0.5 s"
    measured.answers(300, each_s=0.05, every_s=0.016)
    assert measured.admission.slots == 10


ARRIVED = 1_700_000_000.0


class Scene:
    """A queue behind slots that each answer every 0.1 s, after 0.2 s."""

    def __init__(self, *, caller_of: Callable[[Entry], Caller | None] | None = None, **settings: Any) -> None:
        self.monotonic, self.bus_time, self.count = 0.0, ARRIVED, 0
        admission = Admission(most_slots=2, deadline_s=2.0, clock=lambda: self.monotonic)
        self.queue = QueryQueue(
            Settings(tenants=("*",), **settings),
            admission,
            earliest=lambda: self.bus_time,
            caller_of=caller_of,
            clock=lambda: self.monotonic,
        )
        for _ in range(200):
            self.monotonic += 0.1
            self.queue.ended(0.2, is_busy=True)

    def entry(self, tenant: str | None = "ana", ttl_ms: object = 2000, **fields: Any) -> Entry:
        self.count += 1
        payload = {"fragment": "What?", "options": {"tenant": tenant}} if tenant else {"fragment": "What?"}
        whole = {"ttl_ms": ttl_ms, "payload": payload} | fields
        return Entry(id=f"1700000000000-{self.count}", fields={b"envelope": json.dumps(whole).encode()})

    def put(self, *entries: Entry) -> list[Turned]:
        return [turned for entry in entries for turned in self.queue.put(entry)]


def test_what_cannot_be_answered_in_time_is_turned_away_at_once_with_when_to_come_back() -> None:
    scene = Scene()
    turned = scene.put(*(scene.entry() for _ in range(25)))
    assert len(scene.queue) == 18, "17 before it take 1.7 s, and its own answer 0.2 s and a little"
    assert [one.entry.id for one in turned] == [f"1700000000000-{number}" for number in range(19, 26)]
    assert all(1800 <= one.error.retry_after_ms <= 1801 for one in turned)
    assert "18 queries are before this one" in str(turned[0].error)
    assert scene.queue.turned_away == {"no_time": 7}


def test_what_waits_without_a_ttl_waits_up_to_the_bound_and_then_the_one_with_most_gives_way() -> None:
    scene = Scene(max_waiting=10)
    assert not scene.put(*(scene.entry("flood", None) for _ in range(10)))
    (turned,) = scene.put(quiet := scene.entry("quiet", None))
    assert turned.entry.id == "1700000000000-10"
    assert "ORION_MAX_WAITING" in str(turned.error) and turned.error.retry_after_ms in (1000, 1001)
    assert quiet.id in scene.queue.ids
    assert scene.queue.turned_away == {"full": 1}


def test_tenants_that_are_not_served_share_one_queue() -> None:
    scene = Scene()
    scene.queue = QueryQueue(
        Settings(tenants=("ana",)), Admission(most_slots=2, deadline_s=2.0), earliest=lambda: ARRIVED
    )
    for number in range(50):
        scene.put(scene.entry(f"stranger-{number}"))
    scene.put(ana := scene.entry("ana"))
    assert ana in [scene.queue.take(), scene.queue.take()]


def test_where_queries_are_signed_nobody_takes_the_turns_of_another_tenant() -> None:
    signed: dict[str, Caller] = {}
    scene = Scene(caller_of=lambda entry: signed.get(entry.id))
    ana = Caller(id="ana", secret=b"s" * 32, tenants=("ana",), may=frozenset(("recall",)))
    mine = scene.entry("ana")
    forged, for_another = scene.entry("ana"), scene.entry("ben")
    signed[mine.id] = signed[for_another.id] = ana
    scene.put(forged, for_another, mine)
    assert [scene.queue.take() for _ in range(3)] == [forged, mine, for_another], "strangers share one queue"


def test_a_query_that_might_be_late_gives_its_slot_to_one_that_has_more_time_left() -> None:
    scene = Scene()
    for seconds in (0.1, 0.3) * 50:
        scene.monotonic += 0.1
        scene.queue.ended(seconds, is_busy=True)
    scene.put(tight := scene.entry(ttl_ms=1000), fine := scene.entry(ttl_ms=5000), only := scene.entry("ben"))
    scene.bus_time += 0.7
    found = [scene.queue.take() for _ in range(3)]
    assert [isinstance(one, Turned) and one.entry for one in found] == [tight, False, False]
    assert found[1:] == [only, fine]
    scene.put(alone := scene.entry(ttl_ms=1000))
    assert scene.queue.take() == alone, "the only one of its tenant is judged by the mean"


STEP_S, COST_S, SLOTS = 0.002, 0.02, 10
CAPACITY = 1 / COST_S


class SimulatedWorker:
    """A worker whose recalls take 20 ms of its processor on the average; a refusal takes half a millisecond."""

    def __init__(self, ttl_ms: int) -> None:
        self.now, self.ttl_ms, self.random = 0.0, ttl_ms, random.Random(7)
        admission = Admission(most_slots=SLOTS, deadline_s=2.0, clock=lambda: self.now)
        self.queue = QueryQueue(
            Settings(tenants=("*",)), admission, earliest=lambda: ARRIVED + self.now, clock=lambda: self.now
        )
        self.running: list[tuple[Entry, float, float]] = []  # the entry, when it began, seconds of work left
        self.came: dict[str, tuple[str, float]] = {}
        self.outcomes = Counter[tuple[str, str]]()
        self.refusing_s = self.reads_at = 0.0

    def run(self, seconds: float, per_s: dict[str, float]) -> None:
        """Queries of each tenant at a steady rate, until all have their answer."""
        times = [
            ((number + self.random.random()) / rate, tenant)
            for tenant, rate in per_s.items()
            for number in range(int(seconds * rate))
        ]
        waiting = sorted(times, reverse=True)
        while waiting or self.came:
            self.now += STEP_S
            self._work()
            if self.now >= self.reads_at or self._takes_at_once:
                while waiting and waiting[-1][0] <= self.now:
                    self._arrive(*waiting.pop())
                self.reads_at = self.now + self.queue.pause_s

    @property
    def _takes_at_once(self) -> bool:
        return len(self.running) < SLOTS and not len(self.queue)

    def _arrive(self, at: float, tenant: str) -> None:
        message = {"ttl_ms": self.ttl_ms, "payload": {"options": {"tenant": tenant}}}
        entry_id = f"{int((ARRIVED + at) * 1000)}-{self.random.getrandbits(40)}"
        entry = Entry(id=entry_id, fields={b"envelope": json.dumps(message).encode()})
        self.came[entry.id] = tenant, at
        if self._takes_at_once:
            self._start(entry)
        else:
            for turned in self.queue.put(entry):
                self._refuse(turned, "refused at once")

    def _start(self, entry: Entry) -> None:
        self.running.append((entry, self.now, COST_S * self.random.lognormvariate(-0.125, 0.5)))

    def _refuse(self, turned: Turned, when: str) -> None:
        self.refusing_s += 0.0005
        self.outcomes[self.came.pop(turned.entry.id)[0], when] += 1

    def _answer(self, entry: Entry) -> None:
        tenant, at = self.came.pop(entry.id)
        is_late = (self.now - at) * 1000 > self.ttl_ms
        self.outcomes[tenant, "late" if is_late else "ok"] += 1

    def _work(self) -> None:
        refusing_s = min(self.refusing_s, STEP_S)
        self.refusing_s -= refusing_s
        share_s = (STEP_S - refusing_s) / max(1, len(self.running))
        self.running = [(entry, began, left_s - share_s) for entry, began, left_s in self.running]
        for one in [one for one in self.running if one[2] <= 0]:
            self.queue.ended(self.now - one[1], is_busy=len(self.running) >= SLOTS)
            self.running.remove(one)
            self._answer(one[0])
            while len(self.running) < SLOTS and (found := self.queue.take()) is not None:
                if isinstance(found, Turned):
                    self._refuse(found, "refused at its turn")
                else:
                    self._start(found)


@pytest.mark.parametrize(("quiet", "ttl_ms"), [(0.0, 2000), (0.15, 2000), (0.15, 1000)])
def test_beyond_four_times_the_capacity_nearly_none_of_the_admitted_is_late(quiet: float, ttl_ms: int) -> None:
    worker = SimulatedWorker(ttl_ms)
    worker.run(30.0, {"flood": 4 * CAPACITY, "quiet": quiet * CAPACITY})
    found = worker.outcomes
    flood = {outcome: count for (tenant, outcome), count in found.items() if tenant == "flood"}
    assert flood.get("late", 0) <= 0.03 * flood["ok"]
    assert flood["ok"] + found["quiet", "ok"] >= 0.85 * 30.0 * CAPACITY, "the processor answers"
    assert flood["refused at its turn"] <= 0.15 * flood["refused at once"], "who is refused learns it at once"
    assert found["quiet", "ok"] >= 0.95 * quiet * CAPACITY * 30.0 - 1


def entry(name: str, size: int = 1) -> Entry:
    return Entry(id=name, fields={b"envelope": b"x" * size})


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.sampled_from(["put", "take", "drop"]))))
def test_nothing_is_lost_or_taken_twice_whatever_comes(steps: list[tuple[str, int, str]]) -> None:
    queue, inside, gone = FairQueue(), dict[str, int](), list[str]()
    for number, (tenant, size, what) in enumerate(steps):
        if what == "put" or not inside:
            queue.put(tenant, entry(str(number), size), first=number % 3 == 0)
            inside[str(number)] = size
        else:
            found = queue.take() if what == "take" else ("", queue.drop_newest())
            assert found is not None
            gone.append(found[1].id)
            del inside[found[1].id]
        assert {one.id for one in queue} == set(inside)
        assert (len(queue), queue.size_bytes) == (len(inside), sum(inside.values()))
    assert len(gone) == len(set(gone))


def test_a_tenant_beside_a_flood_has_its_turn() -> None:
    scene = Scene()
    scene.put(*(scene.entry("flood") for _ in range(100)))
    assert not scene.put(quiet := scene.entry("quiet"))
    taken = [scene.queue.take() for _ in range(2)]
    assert quiet in taken
