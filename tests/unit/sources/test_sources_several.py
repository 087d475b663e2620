"""One arm over several stores: each costs its own hits only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from orion_recall.errors import PartialSourceError, SourceError
from orion_recall.sources.several import SeveralStores
from orion_recall.values import Hit, Question, Scope, SearchRequest, SourceName

QUESTION = Question(
    text="crane", dense_text="crane", keyword_text="crane", terms=frozenset({"crane"}), now=0.0, text_hash=""
)


def request(**changes: float) -> SearchRequest:
    return SearchRequest(question=QUESTION, scope=Scope(tenant="default"), limit=3, timeout_s=changes.get("s", 1.0))


class Store:
    name: SourceName = "vector"

    def __init__(self, *hits: Hit, error: Exception | None = None, silent: bool = False) -> None:
        self.hits, self.error, self.silent = hits, error, silent
        self.asked = 0

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.hits


async def test_the_best_of_all_stores_come_in_order_of_score_and_key() -> None:
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9), Hit(2, 0.5)), "notes": Store(Hit(3, 0.9), Hit(4, 0.7))})
    assert [hit.key for hit in await arm.search(request())] == [1, 3, 4]


async def test_a_store_that_fails_costs_its_own_hits_and_is_named() -> None:
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": Store(error=SourceError("no such collection"))})
    with pytest.raises(PartialSourceError, match=r"^notes: no such collection$") as told:
        await arm.search(request())
    assert told.value.hits == [Hit(1, 0.9)]


async def test_when_no_store_answers_the_arm_has_failed() -> None:
    arm = SeveralStores(
        "vector", {"": Store(error=SourceError("broken")), "notes": Store(error=SourceError("gone"))}
    )
    with pytest.raises(SourceError, match=r"^broken; notes: gone$") as told:
        await arm.search(request())
    assert not isinstance(told.value, PartialSourceError)


async def test_a_silent_store_is_not_waited_for_and_in_the_end_left_alone() -> None:
    silent = Store(silent=True)
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": silent})
    for _ in range(3):
        with pytest.raises(PartialSourceError, match="notes: no answer within 40 ms"):
            await arm.search(request(s=0.05))
    with pytest.raises(PartialSourceError, match="notes: left alone after: no answer"):
        await arm.search(request(s=0.05))
    assert silent.asked == 3


async def test_a_mistake_of_ours_is_no_silence() -> None:
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": Store(error=ZeroDivisionError("ours"))})
    with pytest.raises(ZeroDivisionError):
        await arm.search(request())
