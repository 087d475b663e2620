"""Who sends many waits for himself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.bus.group_reader import Entry
from orion_recall.serving.query_queue import FairQueue


def entry(name: str, size: int = 1) -> Entry:
    return Entry(id=name, fields={b"envelope": b"x" * size})


def filled(*waiting: tuple[str, str]) -> FairQueue:
    queue = FairQueue()
    for tenant, name in waiting:
        queue.put(tenant, entry(name))
    return queue


def taken(queue: FairQueue) -> list[str]:
    names: list[str] = []
    while (found := queue.take()) is not None:
        names.append(found[1].id)
    return names


def test_a_tenant_that_comes_anew_waits_for_one_of_each_other_at_most() -> None:
    queue = filled(*[("flood", f"f{number}") for number in range(1000)])
    queue.put("ana", entry("a0"))
    assert "a0" in [found[1].id for found in (queue.take(), queue.take()) if found]


def test_the_one_who_has_most_waiting_gives_up_his_newest() -> None:
    queue = filled(("ana", "a0"), ("flood", "f0"), ("flood", "f1"))
    assert queue.drop_newest().id == "f1"
    queue.put("flood", entry("f2"))
    assert queue.drop_newest().id == "f2"
    assert taken(queue) == ["a0", "f0"]
    with pytest.raises(IndexError):
        queue.drop_newest()


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
