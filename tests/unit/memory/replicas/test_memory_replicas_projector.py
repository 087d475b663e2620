"""A projection is given the outbox page by page, and makes the next page ready while it writes one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.errors import ModelError
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.values import Change

_MEMORY = compose(MemoryV1(id="a", text="The kiln is hot."), "default")
_PAGE = 200


class Outbox:
    """A record with so many changes, read by page."""

    def __init__(self, changes: int) -> None:
        self.read: list[int] = []
        self._head = changes

    async def head(self) -> int:
        return self._head

    async def changes(self, after: int, limit: int) -> list[Change]:
        self.read.append(after)
        last = min(self._head, after + limit)
        return [Change(position=number, memory=_MEMORY) for number in range(after + 1, last + 1)]

    async def report_position(self, copy: str, kind: str, position: int) -> None:
        """Nobody reads it here."""


class Copy:
    """A projection that says in which order it was asked; to write takes it a few turns of the loop."""

    kind, shared, copy = "index", False, None
    damage: str | None = None
    stalled: str | None = None

    def __init__(self) -> None:
        self.position = 0
        self.steps: list[tuple[str, int]] = []
        self.fails = False

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def prepare(self, changes: Sequence[Change]) -> None:
        self.steps.append(("prepare", changes[-1].position))
        if self.fails:
            raise ModelError("the model is away")

    async def apply(self, changes: Sequence[Change]) -> None:
        for _ in range(20):  # an engine takes a while
            await asyncio.sleep(0)
        self.steps.append(("apply", changes[-1].position))
        self.position = changes[-1].position

    async def held(self) -> Mapping[int, int]:
        return {}

    async def remove(self, keys: Sequence[int]) -> None: ...


def projector(outbox: Outbox, copy: Copy) -> Projector:
    return Projector(cast("Record", outbox), copy, copy="here")


async def test_pages_are_made_ready_before_they_are_written_and_read_once() -> None:
    outbox, copy = Outbox(2 * _PAGE + 5), Copy()

    assert await projector(outbox, copy).catch_up() == 405

    assert [step for step in copy.steps if step[0] == "prepare"] == [("prepare", 400), ("prepare", 405)]
    assert [step for step in copy.steps if step[0] == "apply"] == [("apply", 200), ("apply", 400), ("apply", 405)]
    assert copy.steps.index(("prepare", 400)) < copy.steps.index(("apply", 200)), "while the first one is written"
    assert outbox.read == [0, 200, 400]


async def test_a_slow_write_has_the_next_page_read_and_made_ready_and_no_more_than_that() -> None:
    outbox, copy = Outbox(9 * _PAGE), Copy()
    applied, may_write = copy.apply, asyncio.Event()

    async def apply(changes: Sequence[Change]) -> None:
        await may_write.wait()
        await applied(changes)

    copy.apply = apply  # type: ignore[method-assign]
    catching_up = asyncio.create_task(projector(outbox, copy).catch_up())
    for _ in range(100):  # turns of the loop, of which each step needs a few
        await asyncio.sleep(0)

    assert copy.steps == [("prepare", 400)]
    assert outbox.read == [0, 200]
    may_write.set()
    assert await catching_up == 9 * _PAGE
    assert outbox.read == [_PAGE * page for page in range(9)]


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_what_cannot_be_made_ready_stops_after_what_was_written_and_leaves_nothing_under_way() -> None:
    outbox, copy = Outbox(3 * _PAGE), Copy()
    copy.fails = True
    with pytest.raises(ModelError):
        await projector(outbox, copy).catch_up()

    assert copy.position == _PAGE
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_copy_that_did_not_go_as_far_as_its_page_goes_on_from_where_it_is() -> None:
    outbox, copy = Outbox(2 * _PAGE), Copy()
    applied = copy.apply

    async def apply(changes: Sequence[Change]) -> None:
        await applied(changes if copy.position else changes[:150])

    copy.apply = apply  # type: ignore[method-assign]
    await projector(outbox, copy).catch_up()

    assert [step for step in copy.steps if step[0] == "apply"] == [("apply", 150), ("apply", 350), ("apply", 400)]
    assert outbox.read == [0, 200, 150, 350]
