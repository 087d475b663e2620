"""Copies of the record: pages of the outbox, tombstones, positions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from redis.asyncio import Redis

from orion_recall.contracts import MemoryV1
from orion_recall.interfaces import Projection
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import CopyPosition, Record
from orion_recall.memory.replicas import tombstones
from orion_recall.memory.replicas.projector import Projector
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream, copy_number
from orion_recall.postgres.pool import Pool
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

    async def database_identity(self) -> str:
        return "here"


class PagedCopy:
    """A projection that says in which order it was asked; to write takes it a few turns of the loop."""

    kind, shared, copy = "index", False, None
    damage: str | None = None
    stalled: str | None = None
    database_identity = "here"

    def __init__(self) -> None:
        self.position = 0
        self.steps: list[tuple[str, int]] = []

    def expect(self, identity: str) -> None: ...
    async def check(self) -> None: ...
    async def adopt(self) -> None: ...
    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def prepare(self, changes: Sequence[Change]) -> None:
        self.steps.append(("prepare", changes[-1].position))

    async def apply(self, changes: Sequence[Change]) -> None:
        for _ in range(20):  # an engine takes a while
            await asyncio.sleep(0)
        self.steps.append(("apply", changes[-1].position))
        self.position = changes[-1].position

    async def held(self) -> Mapping[int, int]:
        return {}

    async def remove(self, keys: Sequence[int]) -> None: ...


def projector(outbox: Outbox, copy: PagedCopy) -> Projector:
    return Projector(cast("Record", outbox), copy, copy="here")


async def test_a_copy_that_did_not_go_as_far_as_its_page_goes_on_from_where_it_is() -> None:
    outbox, copy = Outbox(2 * _PAGE), PagedCopy()
    applied = copy.apply

    async def apply(changes: Sequence[Change]) -> None:
        await applied(changes if copy.position else changes[:150])

    copy.apply = apply  # type: ignore[method-assign]
    await projector(outbox, copy).catch_up()

    assert [step for step in copy.steps if step[0] == "apply"] == [("apply", 150), ("apply", 350), ("apply", 400)]
    assert outbox.read == [0, 200, 150, 350]


async def test_a_page_that_was_read_before_a_copy_was_opened_anew_is_not_applied() -> None:
    outbox, copy = Outbox(10), PagedCopy()
    copy.position = 5
    read = outbox.changes

    async def changes(after: int, limit: int) -> list[Change]:
        copy.position = copy.position if copy.steps else 0
        return await read(after, limit)

    outbox.changes = changes  # type: ignore[method-assign]
    await projector(outbox, copy).catch_up()
    assert (outbox.read, copy.steps) == ([5, 0], [("apply", 10)])


async def test_a_kind_that_is_searched_and_that_nobody_has_registered_is_at_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def registered(pool: object) -> list[CopyPosition]:
        return [CopyPosition(copy="there", kind="graph", position=5, updated_at=0.0)]

    monkeypatch.setattr(tombstones, "registered_copies", registered)
    for copies, found in (([], {"graph": 5}), ([PagedCopy()], {"graph": 5, "index": 0})):
        stream = TombstoneStream(cast(Redis, None), cast(Redis, None), "stream", Tombstones(copies))
        assert {one.kind: one.position for one in await stream.copies(cast(Pool, None))} == found


def test_one_is_in_force_while_the_copies_are_below_it():
    known = Tombstones()
    known.applied_position = lambda: 6
    known.add({1: 7, 2: 5})
    assert [known.hides(key, known.applied_position()) for key in (1, 2, 3)] == [True, False, False]
    known.applied_position = lambda: 7
    assert not known.hides(1, known.applied_position())
    assert known.hides(1, 6), "a recall that began before still needs it"


def test_what_was_out_of_force_at_the_last_sweep_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tombstones, "_SWEEP_EVERY_S", 0.0)
    known = Tombstones()
    known.applied_position = lambda: 5
    known.add({1: 4, 2: 6})
    known.sweep()
    assert known.hides(1, 3), "recalls that began before may still run"
    known.sweep()
    assert not known.hides(1, 3)
    assert known.hides(2, 5)


@dataclass
class Copy:
    position: int
    kind: str = "index"
    shared: bool = True
    copy: str | None = "qdrant"


def of(*copies: Copy) -> Tombstones:
    return Tombstones([cast("Projection", copy) for copy in copies])


THEIRS = copy_number("index", "qdrant")


def test_a_shared_copy_is_where_it_was_seen_last_by_this_process_or_by_another():
    copy = Copy(5)
    own = of(copy)
    own.reached({THEIRS: 7, copy_number("graph", "qdrant"): 9})
    assert own.applied_position() == 7
    own.reached({THEIRS: 6})
    assert own.applied_position() == 7, "what was said before is heard later"
    copy.position = 6
    assert own.applied_position() == 7
    copy.position = 8
    assert own.applied_position() == 8, "nobody else has to say so"


def test_a_shared_copy_that_was_seen_going_back_is_where_it_was_seen():
    copy = Copy(8)
    own = of(copy)
    own.reached({THEIRS: 9})
    copy.position = 0
    assert own.applied_position() == 0
    copy.position = 3
    assert own.applied_position() == 3, "what was known before it lost something no longer counts"
