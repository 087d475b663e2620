"""Which queries wait, and which are turned away with when to come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from orion_recall.bus.consumer_loop import Turned
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.keys import Caller, Key
from orion_recall.serving.admission import Admission
from orion_recall.serving.query_queue import QueryQueue
from orion_recall.settings import Settings

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


def test_a_tenant_beside_a_flood_has_its_turn() -> None:
    scene = Scene()
    scene.put(*(scene.entry("flood") for _ in range(100)))
    assert not scene.put(quiet := scene.entry("quiet"))
    taken = [scene.queue.take() for _ in range(2)]
    assert quiet in taken


def test_what_waits_without_a_ttl_waits_up_to_the_bound_and_then_the_one_with_most_gives_way() -> None:
    scene = Scene(max_waiting=10)
    assert not scene.put(*(scene.entry("flood", None) for _ in range(10)))
    (turned,) = scene.put(quiet := scene.entry("quiet", None))
    assert turned.entry.id == "1700000000000-10"
    assert "ORION_MAX_WAITING" in str(turned.error) and turned.error.retry_after_ms in (1000, 1001)
    assert quiet.id in scene.queue.ids
    assert scene.queue.turned_away == {"full": 1}


def test_while_the_clock_of_the_bus_is_unknown_the_whole_ttl_is_left() -> None:
    scene = Scene()
    scene.bus_time = 0.0
    assert not scene.put(entry := scene.entry(ttl_ms=300))
    assert scene.queue.take() == entry


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
    ana = Caller(key=Key(id="ana", secret=b"s" * 32), tenants=("ana",), may=frozenset(("recall",)))
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
