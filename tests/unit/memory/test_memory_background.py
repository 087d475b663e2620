"""Access counts: the first fifty ids of each reply, written beside the replies and never in their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from orion_recall.errors import RecordError
from orion_recall.memory.intake.background import AccessCounts


class Touched:
    """A record that notes what it was told, or is away."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.away = False

    async def touch(self, tenant: str, ids: Sequence[str]) -> None:
        if self.away:
            raise RecordError("Postgres is away")
        self.told.append((tenant, list(ids)))


@pytest.fixture
def record() -> Touched:
    return Touched()


@pytest.fixture
def counts(record: Touched) -> AccessCounts:
    return AccessCounts(cast("Any", record))


async def test_the_first_fifty_ids_of_a_reply_are_counted(record: Touched, counts: AccessCounts) -> None:
    ids = [f"m{place}" for place in range(60)]
    counts.note("acme", ids)
    counts.note("acme", ["m1"])
    counts.note("other", ["m1"])
    assert record.told == [], "a reply does not wait for it"
    await counts.flush()
    assert record.told == [("acme", [*ids[:50], "m1"]), ("other", ["m1"])]
    await counts.flush()
    assert len(record.told) == 2, "each is written once"


async def test_what_cannot_be_written_is_dropped(record: Touched, counts: AccessCounts) -> None:
    record.away = True
    counts.note("acme", ["m1"])
    await counts.flush()
    record.away = False
    counts.note("acme", ["m2"])
    await counts.flush()
    assert record.told == [("acme", ["m2"])]
