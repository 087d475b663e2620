from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from orion_recall.errors import SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.search.further_lists import within
from orion_recall.recall.types import Recalled
from orion_recall.values import Hit, Interval, Scope, SearchRequest, ToldTime
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

DAY = 86_400.0
TEXT = "what about the crane yesterday?"
MIDNIGHT = NOW - NOW % DAY
OLD = view("old", "the crane creaked", ts=MIDNIGHT - 0.5 * DAY)
NEW = view("new", "the crane fell", ts=MIDNIGHT - 90 * DAY)


class Dated(FakeSource):
    """Brings `hits`; inside a time, `inside`, or what is worse."""

    def __init__(self, *args: Any, inside: tuple[Hit, ...] = (), fails: bool = False, hangs: bool = False) -> None:
        super().__init__(*args)
        self.inside, self.fails, self.hangs = inside, fails, hangs

    async def search(self, request: SearchRequest) -> Any:
        if request.scope.since is None:
            return await super().search(request)
        self.requests.append(request)
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise SourceError("broken")
        return self.inside


def arm(**inside: Any) -> Dated:
    return Dated("vector", (hit("new", 0.9), hit("other", 0.1)), **inside)


async def ask(tokens: TokenCounter, made: Dated, weight: float = 0.5, **options: Any) -> Recalled:
    used = profile(time={"search_weight": weight}, source_timeout_ms=200)
    return await recall(query(TEXT, **options), used, sources(tokens, [made], OLD, NEW), now=NOW)


async def test_what_only_the_named_time_brings_is_found(tokens: TokenCounter):
    made = arm(inside=(hit("old", 0.05),))
    recalled = await ask(tokens, made)
    assert {item.memory.id for item in recalled.ranked} == {"old", "new"}
    (inside,) = [request.scope for request in made.requests if request.scope.since is not None]
    assert (inside.since, inside.until) == (MIDNIGHT - 2 * DAY, MIDNIGHT + DAY)
    (report,) = [report for report in recalled.reports if report.source == "vector"]
    assert len(report.hits) == 2, "the report is of the first search"


async def test_nothing_is_searched_twice_without_a_weight_or_a_time(tokens: TokenCounter):
    made = arm(inside=(hit("old", 0.05),))
    await ask(tokens, made, weight=0.0)
    used = profile(time={"search_weight": 0.5})
    await recall(query("what about the crane?"), used, sources(tokens, [made], OLD, NEW), now=NOW)
    assert all(request.scope.since is None for request in made.requests)


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
@pytest.mark.parametrize("fault", [{"fails": True}, {"hangs": True}])
async def test_a_second_search_that_fails_or_hangs_costs_its_hits_and_no_more(
    tokens: TokenCounter, fault: dict[str, bool]
):
    began = time.perf_counter()
    recalled = await ask(tokens, arm(**fault))
    assert [item.memory.id for item in recalled.ranked] == ["new"]
    assert time.perf_counter() - began < 30
    assert not [task for task in asyncio.all_tasks() if "orion_recall/recall/" in repr(task)]


def test_the_scope_is_narrowed_and_never_widened():
    scope = Scope(tenant="t", since=4 * DAY, until=6 * DAY)
    one = Interval(start=5 * DAY, end=9 * DAY, kind="date", words="then")
    other = Interval(start=None, end=3 * DAY, kind="open", words="before")
    assert within(scope, [one]) == Scope(tenant="t", since=4 * DAY, until=6 * DAY)
    assert within(Scope(tenant="t"), [one]) == Scope(tenant="t", since=4 * DAY, until=10 * DAY)
    assert within(Scope(tenant="t"), [one, other]) == Scope(tenant="t", until=10 * DAY)


class Telling(FakeSource):
    """Brings `hits`, and those of `telling` where told times are asked for."""

    def __init__(self, *args: Any, telling: tuple[Hit, ...] = ()) -> None:
        super().__init__(*args)
        self.telling = telling

    async def search(self, request: SearchRequest) -> Any:
        if not request.scope.told:
            return await super().search(request)
        self.requests.append(request)
        return self.telling


async def test_what_tells_of_the_named_time_joins_the_candidates(tokens: TokenCounter):
    made = Telling("vector", (hit("new", 0.9), hit("other", 0.1)), telling=(hit("old", -0.3),))
    used = profile(time={"told_search_weight": 0.5}, source_timeout_ms=200)
    told = OLD._replace(told=(ToldTime(MIDNIGHT - DAY, MIDNIGHT),))
    recalled = await recall(query(TEXT), used, sources(tokens, [made], told, NEW), now=NOW)
    assert {item.memory.id for item in recalled.ranked} == {"old", "new"}
    (request,) = [request for request in made.requests if request.scope.told]
    assert request.scope.told == ((MIDNIGHT - DAY, MIDNIGHT),)
    assert request.scope.since is None
    assert request.min_score == -1.0


async def test_told_times_are_not_searched_for_where_the_time_is_that_of_saying(tokens: TokenCounter):
    made = Telling("vector", (hit("new", 0.9),), telling=(hit("old", 0.5),))
    used = profile(time={"told_search_weight": 0.5}, source_timeout_ms=200)
    await recall(query("what did we talk about yesterday?"), used, sources(tokens, [made], NEW), now=NOW)
    assert not any(request.scope.told for request in made.requests)
