"""Four times what a worker can answer, simulated: how many admitted queries are late, and who is refused when.

Time is simulated, so that nothing depends on the machine. Recalls share one processor, as they do in a worker.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.serving.admission import Admission
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.settings import Settings

ARRIVED = 1_700_000_000.0
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
