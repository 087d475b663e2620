"""One source over several stores, and circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from orion_recall.errors import PartialSourceError, QueryNotTaken, ScopeNotKept, SourceError
from orion_recall.recall.search.all_sources import search_all
from orion_recall.sources.several_stores import Breaker, SeveralStores
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
    with pytest.raises(PartialSourceError, match=r"^broken; notes: gone$") as told:
        await arm.search(request())
    assert told.value.hits == [] and not arm.are_left_alone
    for _ in range(2):
        with pytest.raises(PartialSourceError):
            await arm.search(request())
    assert arm.are_left_alone


async def test_a_silent_store_is_not_waited_for_and_in_the_end_left_alone() -> None:
    silent = Store(silent=True)
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": silent})
    for _ in range(3):
        with pytest.raises(PartialSourceError, match="notes: no answer within 40 ms"):
            await arm.search(request(s=0.05))
    with pytest.raises(PartialSourceError, match="notes: left alone after: no answer"):
        await arm.search(request(s=0.05))
    assert silent.asked == 3


@pytest.mark.parametrize(
    "error", [KeyError("thing"), ValueError("no number"), RecursionError("too deep"), ZeroDivisionError("theirs")]
)
async def test_an_answer_of_anothers_store_that_cannot_be_read_costs_its_own_hits(error: Exception) -> None:
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": Store(error=error)})
    told = rf"^notes: its answer cannot be read \({type(error).__name__}\)$"
    with pytest.raises(PartialSourceError, match=told) as caught:
        await arm.search(request())
    assert caught.value.hits == [Hit(1, 0.9)]


async def test_a_mistake_in_reading_the_own_store_is_no_silence() -> None:
    arm = SeveralStores("vector", {"": Store(error=ZeroDivisionError("ours")), "notes": Store(Hit(1, 0.9))})
    with pytest.raises(ZeroDivisionError):
        await arm.search(request())


async def test_keyword_scores_of_a_small_collection_are_brought_to_the_own_ones() -> None:
    own, theirs = Store(Hit(1, 12.0), Hit(2, 6.0)), Store(Hit(3, 2.0), Hit(4, 1.5), Hit(5, 0.5))
    arm = SeveralStores("lexical", {"": own, "notes": theirs, "empty": Store()})
    hits = await arm.search(request())
    assert [(hit.key, hit.score) for hit in hits] == [(1, 12.0), (3, 12.0), (4, 9.0)]
    alone = SeveralStores("lexical", {"notes": theirs})
    assert [hit.score for hit in await alone.search(request())] == [2.0, 1.5, 0.5]


async def test_a_scope_that_a_store_cannot_keep_to_costs_that_query_and_no_other() -> None:
    picky = Store(Hit(2, 0.7), error=ScopeNotKept("no column for session_id"))
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "notes": picky})
    for _ in range(5):
        with pytest.raises(PartialSourceError, match=r"^notes: no column for session_id$"):
            await arm.search(request())
    picky.error = None
    assert [hit.key for hit in await arm.search(request())] == [1, 2]


class OfBo(Store):
    """A store that is one tenant's."""

    tenant = "bo"

    def answers_for(self, tenant: str) -> bool:
        return tenant == self.tenant


class OfAna(OfBo):
    tenant = "ana"


async def test_a_store_of_another_tenant_is_neither_asked_nor_named_whatever_befell_it() -> None:
    secret = OfBo(error=SourceError("away"))
    arm = SeveralStores("vector", {"": Store(Hit(1, 0.9)), "bos": secret})
    for _ in range(4):
        with pytest.raises(PartialSourceError, match="bos: "):
            await arm.search(replace(request(), scope=Scope(tenant="bo")))
    assert secret.asked == 3, "its breaker is open"
    assert [hit.key for hit in await arm.search(request())] == [1]
    assert await SeveralStores("vector", {"bos": secret}).search(request()) == []


async def test_stores_of_one_tenant_that_are_all_away_do_not_take_the_arm_from_another() -> None:
    arm = SeveralStores("vector", {"bos": OfBo(error=SourceError("away")), "anas": OfAna(Hit(1, 0.9))})
    held: dict[SourceName, Breaker] = {"vector": Breaker()}
    ofs = {tenant: replace(request(), scope=Scope(tenant=tenant)) for tenant in ("bo", "ana")}
    for _ in range(4):
        report, *_ = await search_all({"vector": arm}, {"vector": ofs["bo"]}, held, timeout_s=5, retries=0)
        assert (report.status, report.hits) == ("failed", ())
    assert not arm.are_left_alone
    report, *_ = await search_all({"vector": arm}, {"vector": ofs["ana"]}, held, timeout_s=5, retries=0)
    assert (report.status, [hit.key for hit in report.hits]) == ("ok", [1])


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(3):
        breaker.record("away", now)
    assert breaker.is_open
    return breaker


def test_being_late_for_a_caller_that_waits_for_less_is_neither_failure_nor_success() -> None:
    breaker = Breaker()
    breaker.record("away", 0.0)
    for _ in range(9):
        breaker.record_late("no answer within 20 ms", 0.0, is_excused=True)
    assert (breaker.failures, breaker.last_error) == (1, "away")
    breaker.record_late("no answer within 800 ms", 0.0, is_excused=False)
    assert (breaker.failures, breaker.last_error) == (2, "no answer within 800 ms")


def test_a_query_that_the_source_cannot_take_gives_its_turn_back() -> None:
    for error in (ScopeNotKept("no column for session_id"), QueryNotTaken("the server refuses the filter")):
        breaker = opened()
        assert breaker.lets_through(2.0)
        breaker.record_error(error, 2.1)
        assert breaker.failures == 3
        assert breaker.lets_through(2.2), "the next may show whether the source is back"
    breaker.record_error(SourceError("away"), 2.3)
    assert not breaker.lets_through(2.4)


def test_callers_that_wait_for_less_do_not_use_up_the_turns_of_the_others() -> None:
    breaker = opened()
    assert breaker.lets_through(2.0, is_short=True)
    assert not breaker.lets_through(2.1, is_short=True)
    assert breaker.lets_through(2.1), "a full turn is left"
    assert not breaker.lets_through(2.2)
    breaker.record(None, 2.3)
    assert breaker.lets_through(2.4) and breaker.lets_through(2.4, is_short=True)
