"""A caller that waits for less than others costs itself hits, and nobody else a source."""

from __future__ import annotations

import asyncio

import pytest

from orion_recall.errors import QueryNotTaken
from orion_recall.foreground import CUT_BY_CALLER
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.types import Sources
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

CRANE = view("m1", "The harbour crane needs a gearbox.")


async def asked(made: Sources, *, timeout_s: float, full_s: float = 2.0, source_ms: int = 800) -> Recalled:
    shape = profile(source_timeout_ms=source_ms, rdf_top_k=0, lexical_top_k=0, enable_sql_timeline=False)
    return await recall(query(), shape, made, now=NOW, timeout_s=timeout_s, full_timeout_s=full_s)


async def test_queries_with_little_time_leave_the_source_to_those_of_others(tokens: TokenCounter) -> None:
    slow = FakeSource("vector", [hit("m1", 0.9)], opened=asyncio.Event())
    made = sources(tokens, [slow], CRANE)
    for _ in range(5):
        assert (await asked(made, timeout_s=0.02)).outcome == "failed"
    assert slow.opened is not None
    slow.opened.set()
    assert (await asked(made, timeout_s=2.0)).outcome == "ok"


async def test_a_source_that_is_late_for_its_own_limit_has_failed_whatever_the_caller_would_wait(
    tokens: TokenCounter,
) -> None:
    slow = FakeSource("vector", opened=asyncio.Event())
    made = sources(tokens, [slow], CRANE)
    for _ in range(3):
        await asked(made, timeout_s=1.0, source_ms=10)
    assert "left alone" in ((await asked(made, timeout_s=1.0, source_ms=10)).reports[0].error or "")
    assert len(slow.requests) == 3


async def test_where_the_service_itself_gives_less_than_the_source_may_take_being_late_counts(
    tokens: TokenCounter,
) -> None:
    slow = FakeSource("vector", opened=asyncio.Event())
    made = sources(tokens, [slow], CRANE)
    for _ in range(4):
        await asked(made, timeout_s=0.02, full_s=0.02)
    assert len(slow.requests) == 3, "or a source that hangs would cost every query all of its time"


async def test_a_filter_that_is_refused_costs_that_query_only(tokens: TokenCounter) -> None:
    picky = FakeSource(
        "vector", [hit("m1", 0.9)], errors=[QueryNotTaken("the filter is refused") for _ in range(5)]
    )
    made = sources(tokens, [picky], CRANE)
    for _ in range(5):
        assert (await asked(made, timeout_s=2.0)).outcome == "failed"
    assert (await asked(made, timeout_s=2.0)).outcome == "ok"


@pytest.mark.parametrize(("timeout_s", "is_cut"), [(0.5, True), (2.0, False)])
async def test_clients_of_servers_are_told_whether_the_caller_waits_for_less(
    tokens: TokenCounter, timeout_s: float, is_cut: bool
) -> None:
    told: list[bool] = []

    class Telling(FakeSource):
        async def search(self, request: object) -> list[object]:  # pyright: ignore[reportIncompatibleMethodOverride]
            told.append(CUT_BY_CALLER.get())
            return []

    await asyncio.create_task(asked(sources(tokens, [Telling("vector")], CRANE), timeout_s=timeout_s))
    assert told == [is_cut]
