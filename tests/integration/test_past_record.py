"""The record as it was: after any number of further changes it tells the copies what the record told them then."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.errors import SettingsError
from orion_recall.evaluation.replay.past import Moment, PastRecord
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.memory.record import successions
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.values import Change
from tests.stand_ins.memory_changes import MemoryChanges

pytestmark = pytest.mark.slow

TENANT = "acme"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool]:
    opened = await open_pool(database, name="past", max_size=2)
    yield opened
    await opened.close()


class History:
    """Changes a record step by step, and keeps what the copies were told after each."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self.record, self.changes = pool, Record(pool), MemoryChanges(pool)
        self.merges = Merges(pool)
        self.told: list[tuple[Moment, dict[str, Change]]] = []

    async def store(self, number: int, text: str, **fields: Any) -> None:
        at = NOON + timedelta(minutes=number)
        values = {"id": f"m{number}", "text": text, "session_id": "s", "speaker": "Ana", "occurred_at": at} | fields
        result = await self.record.store([compose(MemoryV1.model_validate(values), TENANT)])
        assert [verdict.status for verdict in result.verdicts] == ["stored"]
        await self.keep()

    async def keep(self) -> None:
        """Keep what a copy that begins now is told, by memory."""
        head = await self.record.head()
        now: datetime = await self._pool.fetchval("SELECT clock_timestamp()")
        self.told.append((Moment(position=head, at=now), by_memory(await self.record.changes(0, 1000))))

    async def live(self) -> None:
        """A day with every kind of change."""
        for number, text in enumerate(("Bob sold the boat.", "It was blue.", "Robert Miles sleeps.", "Ana cooks.")):
            await self.store(number, text, entities=["Bob", "Robert Miles"] if number in (0, 2) else [])
        made = await self.merges.merge(TENANT, [WantedMerge(kind="entity", alias="Bob", into="Robert Miles")])
        await self.keep()
        await self.changes.update(TENANT, [Patch(id="m1", changes={"text": "It was red, and fast."})])
        await self.keep()
        await successions.by_person(self._pool, TENANT, "m3", "m1")
        await self.keep()
        await successions.by_person(self._pool, TENANT, "m3", "m1", undo=True)
        await self.keep()
        await self.changes.delete(TENANT, ["m2"])
        await self.keep()
        await self.merges.undo(TENANT, [one.id for one in made.verdicts if one.id is not None])
        await self.keep()
        await self.store(7, "The boat is green now.", supersedes=["m1"])
        await self.changes.update(TENANT, [Patch(id="m7", changes={"speaker": "Eve"})])
        await self.keep()


def by_memory(changes: list[Change]) -> dict[str, Change]:
    """The last change of each live memory."""
    found = {one.memory.id: one for one in changes}
    return {name: one for name, one in found.items() if one.memory.is_live}


async def test_every_moment_is_told_as_it_was(database: str, pool: Pool) -> None:
    history = History(pool)
    await history.live()
    assert len({str(told) for _, told in history.told}) == len(history.told), "every step changes something"
    async with PastRecord.open(database, [TENANT]) as past:
        for moment, told in history.told:
            await past.move(moment)
            found = by_memory([one async for page in past.changes(0, moment.position) for one in page])
            assert found == told, moment
            rows = await past.fetch("SELECT id FROM collapse_mirror", [])
            assert {row["id"] for row in rows} == set(told)
            assert await past.head_at(moment.at) == moment.position
    # Nothing of it stays.
    assert by_memory(await history.record.changes(0, 1000)) == history.told[-1][1]


async def test_another_tenant_is_not_in_it_and_what_was_erased_cannot_come_back(database: str, pool: Pool) -> None:
    history = History(pool)
    await history.live()
    other = compose(MemoryV1(id="m0", text="Nobody else's boat."), "other")
    await history.record.store([other])
    await history.changes.delete(TENANT, ["m0"], erase=True)
    (before, _), *_, (after, _) = history.told
    async with PastRecord.open(database, [TENANT]) as past:
        await past.move(before)
        assert await past.fetch("SELECT id FROM memories", []) == []
        await past.move(after)
        rows = await past.fetch("SELECT tenant, id FROM memories WHERE live", [])
        assert {(row["tenant"], row["id"]) for row in rows} == {(TENANT, "m3"), (TENANT, "m7")}
        assert await past.changed(before.position, after.position) == [
            (TENANT, "m1"),
            (TENANT, "m2"),
            (TENANT, "m7"),
        ]


async def test_a_pooler_that_hands_out_sessions_is_refused(database: str) -> None:
    pooled = f"{database}{'&' if '?' in database else '?'}statement_cache_size=0"
    with pytest.raises(SettingsError, match="a session of its own"):
        async with PastRecord.open(pooled, [TENANT]):
            pass
