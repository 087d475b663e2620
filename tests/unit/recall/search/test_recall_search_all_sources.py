from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orion_recall.errors import ModelError, PartialSourceError, ScopeNotKept, SourceError, TransientSourceError
from orion_recall.recall.search.all_sources import search_all
from orion_recall.sources.several_stores import Breaker
from orion_recall.tasks import Slots, cancel
from orion_recall.values import SOURCE_NAMES, Hit, Question, Scope, SearchRequest, SourceName, SourceReport
from tests.samples.recall_fakes import NOW, FakeSource, hit

QUESTION = Question(
    text="crane", dense_text="crane", keyword_text="crane", terms=frozenset({"crane"}), now=NOW, text_hash=""
)
REQUEST = SearchRequest(question=QUESTION, scope=Scope(tenant="acme"), limit=10)
FOUND = (hit("a", 2.0), hit("b", 1.0))


def breakers() -> dict[SourceName, Breaker]:
    return {name: Breaker() for name in SOURCE_NAMES}


async def search(
    *arms: FakeSource, timeout_s: float = 60.0, retries: int = 0, held: dict[SourceName, Breaker] | None = None
) -> dict[SourceName, SourceReport]:
    reports = await search_all(
        {arm.name: arm for arm in arms},
        {arm.name: REQUEST for arm in arms},
        held or breakers(),
        timeout_s=timeout_s,
        retries=retries,
    )
    assert tuple(report.source for report in reports) == SOURCE_NAMES
    return {report.source: report for report in reports}


async def test_every_source_has_a_report_in_a_fixed_order():
    reports = await search(FakeSource("rdf"), FakeSource("vector", FOUND))
    assert {name: report.status for name, report in reports.items()} == {
        "vector": "ok", "lexical": "off", "rdf": "empty", "sql_timeline": "off",
    }  # fmt: skip
    assert reports["vector"].hits == FOUND
    assert reports["vector"].ms > 0


async def test_a_source_without_a_request_is_off_and_so_is_a_request_without_a_source():
    asked = FakeSource("vector", FOUND)
    reports = await search_all({"vector": asked}, {"rdf": REQUEST}, breakers(), timeout_s=1, retries=0)
    assert {report.status for report in reports} == {"off"}
    assert asked.requests == []


@pytest.mark.parametrize("error", [SourceError("broken"), TransientSourceError("broken"), ModelError("broken")])
async def test_a_failing_source_costs_its_own_hits_only(error: Exception):
    reports = await search(FakeSource("vector", FOUND, errors=[error]), FakeSource("lexical", FOUND))
    assert (reports["vector"].status, reports["vector"].error, reports["vector"].hits) == ("failed", "broken", ())
    assert reports["lexical"].hits == FOUND


async def test_a_source_that_misses_the_deadline_is_late_and_is_cancelled():
    slow = FakeSource("rdf", FOUND, opened=asyncio.Event())
    reports = await search(slow, FakeSource("vector", FOUND), timeout_s=0.5)
    assert (reports["rdf"].status, reports["rdf"].hits) == ("late", ())
    assert "500 ms" in (reports["rdf"].error or "")
    assert reports["vector"].status == "ok"


async def test_without_time_nobody_is_asked():
    asked = FakeSource("vector", FOUND)
    reports = await search(asked, timeout_s=0.0)
    assert reports["vector"].status == "late"
    assert asked.requests == []


async def test_sources_are_searched_at_the_same_time():
    gate = asyncio.Event()

    class Opener(FakeSource):
        async def search(self, request: SearchRequest) -> Sequence[Any]:
            gate.set()
            return await super().search(request)

    reports = await search(FakeSource("vector", FOUND, opened=gate), Opener("sql_timeline", FOUND))
    assert [reports["vector"].status, reports["sql_timeline"].status] == ["ok", "ok"]


async def test_a_passing_error_is_tried_again():
    flaky = FakeSource("vector", FOUND, errors=[TransientSourceError("busy"), TransientSourceError("busy")])
    reports = await search(flaky, retries=2)
    assert reports["vector"].hits == FOUND
    assert len(flaky.requests) == 3


async def test_the_last_try_says_what_was_wrong():
    flaky = FakeSource("vector", FOUND, errors=[TransientSourceError(f"busy {n}") for n in range(3)])
    reports = await search(flaky, retries=1)
    assert (reports["vector"].status, reports["vector"].error) == ("failed", "busy 1")
    assert len(flaky.requests) == 2


async def test_an_error_that_will_not_pass_is_not_tried_again():
    broken = FakeSource("vector", FOUND, errors=[SourceError("broken")])
    assert (await search(broken, retries=3))["vector"].status == "failed"
    assert len(broken.requests) == 1


async def test_retries_stay_inside_the_deadline():
    flaky = FakeSource("vector", FOUND, errors=[TransientSourceError("busy") for _ in range(100)])
    report = (await search(flaky, retries=50, timeout_s=0.5))["vector"]
    assert report.status == "late"
    assert 0 < len(flaky.requests) < 10


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_a_cancelled_search_leaves_nothing_running():
    slow = FakeSource("vector", FOUND, opened=asyncio.Event())
    task = asyncio.create_task(search(slow))
    while not slow.requests:
        await asyncio.sleep(0)
    assert [one for one in asyncio.all_tasks() if "object _search at" in repr(one.get_coro())]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert not [one for one in asyncio.all_tasks() if "object _search at" in repr(one.get_coro())]


async def test_a_source_that_failed_three_times_is_left_alone():
    held = breakers()
    broken = FakeSource("vector", FOUND, errors=[SourceError("no server") for _ in range(9)])
    for _ in range(3):
        assert (await search(broken, held=held))["vector"].error == "no server"
    report = (await search(broken, held=held))["vector"]
    assert (report.status, report.error) == ("failed", "left alone after: no server")
    assert len(broken.requests) == 3


async def test_a_source_that_answers_again_is_asked_as_before():
    held = breakers()
    mended = FakeSource("vector", FOUND, errors=[SourceError("no server") for _ in range(3)])
    for _ in range(3):
        await search(mended, held=held)
    held["vector"].retry_at = 0.0  # two seconds later
    assert (await search(mended, held=held))["vector"].hits == FOUND
    assert held["vector"].failures == 0
    assert (await search(mended, held=held))["vector"].hits == FOUND


async def test_being_late_counts_as_failing():
    held = breakers()
    slow = FakeSource("rdf", FOUND, opened=asyncio.Event())
    for _ in range(3):
        await search(slow, timeout_s=0.005, held=held)
    assert (await search(slow, timeout_s=0.005, held=held))["rdf"].status == "failed"
    assert len(slow.requests) == 3


def test_an_open_breaker_lets_one_through_every_two_seconds():
    breaker = Breaker()
    for now in (0.0, 0.1, 0.2):
        assert breaker.lets_through(now)
        breaker.record("away", now)
    assert not breaker.lets_through(2.1)
    assert breaker.lets_through(2.3)
    assert not breaker.lets_through(2.4), "the one that was let through holds the others back"
    breaker.record(None, 2.5)
    assert breaker.lets_through(2.6)


def test_failures_must_be_in_a_row():
    breaker = Breaker()
    for now in range(9):
        breaker.record("away" if now % 3 else None, float(now))
        assert breaker.lets_through(float(now))


async def test_a_query_whose_scope_a_source_cannot_keep_to_fails_and_costs_no_other_query_the_source():
    held = breakers()
    picky = FakeSource("vector", FOUND, errors=[ScopeNotKept("no column for session_id") for _ in range(5)])
    for _ in range(5):
        report = (await search(picky, held=held))["vector"]
        assert (report.status, report.error) == ("failed", "no column for session_id")
    assert (await search(picky, held=held))["vector"].hits == FOUND


class OfAnother(FakeSource):
    """Holds nothing for the tenant that asks."""

    def answers_for(self, tenant: str) -> bool:
        return tenant != REQUEST.scope.tenant


async def test_a_source_of_another_tenant_is_not_asked_and_nothing_of_its_failures_is_told():
    held = breakers()
    for _ in range(3):
        held["vector"].record("secrets of bo", 1e12)
    theirs = OfAnother("vector", FOUND)
    report = (await search(theirs, held=held))["vector"]
    assert (report.status, report.error, report.hits) == ("empty", None, ())
    assert theirs.requests == []


class OneAtATime(FakeSource):
    """A source with one slot, whose first search ends when it is told to, and the others never."""

    def __init__(self) -> None:
        super().__init__("vector", FOUND)
        self.slots, self.first_ends, self.asked = Slots(1), asyncio.Event(), 0

    async def search(self, request: SearchRequest) -> Sequence[Any]:
        self.asked += 1
        until = self.first_ends if self.asked == 1 else asyncio.Event()
        async with self.slots:
            await until.wait()
        return self.hits


@pytest.mark.parametrize(("others_are_answered", "failures"), [(True, 0), (False, 1)])
async def test_waiting_for_a_turn_is_no_failure_as_long_as_others_are_answered(
    others_are_answered: bool, failures: int
):
    source, held = OneAtATime(), breakers()
    first, second = (asyncio.create_task(source.search(REQUEST)) for _ in range(2))
    late = asyncio.create_task(search(source, timeout_s=0.2, held=held))
    while source.asked < 3:
        await asyncio.sleep(0)
    if others_are_answered:
        source.first_ends.set()
        await first
    assert (await late)["vector"].status == "late"
    assert held["vector"].failures == failures
    await cancel(first, second)


KINDS = replace(REQUEST, scope=Scope(tenant="acme", kinds=("world", "opinion")))


class OfKinds(FakeSource):
    """Has hits by kind; a kind may have an error instead."""

    def __init__(self, *args: Any, **kinds: tuple[Hit, ...] | SourceError) -> None:
        super().__init__(*args)
        self.kinds = kinds

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.requests.append(request)
        (kind,) = request.scope.kinds
        found = self.kinds[kind]
        if isinstance(found, SourceError):
            raise found
        return found


async def by_kind(source: FakeSource) -> SourceReport:
    reports = await search_all(
        {"vector": source}, {"vector": KINDS}, breakers(), timeout_s=60, retries=1, by_kind=True
    )
    return reports[0]


async def test_each_kind_is_searched_for_alone_and_has_its_own_list():
    source = OfKinds("vector", world=(hit("a", 0.9), hit("c", 0.2)), opinion=(hit("b", 0.5),))
    report = await by_kind(source)
    assert [request.scope.kinds for request in source.requests] == [("world",), ("opinion",)]
    assert report.lists == ((hit("a", 0.9), hit("c", 0.2)), (hit("b", 0.5),))
    assert report.hits == (hit("a", 0.9), hit("b", 0.5), hit("c", 0.2))
    assert report.status == "ok"


async def test_of_a_source_that_fails_for_one_kind_nothing_counts():
    report = await by_kind(OfKinds("vector", world=FOUND, opinion=SourceError("broken")))
    assert (report.status, report.hits, report.error) == ("failed", (), "broken")


async def test_what_a_part_of_the_stores_has_of_one_kind_counts_with_the_other_kinds():
    partial = PartialSourceError("one store is away", [hit("b", 0.5)])
    report = await by_kind(OfKinds("vector", world=(hit("a", 0.9),), opinion=partial))
    assert (report.status, report.hits) == ("failed", (hit("a", 0.9), hit("b", 0.5)))
    assert report.error == "one store is away"
