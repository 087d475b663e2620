"""What stands in for the index: when it is asked, whose report its hits are in, what time it may take."""

from __future__ import annotations

import asyncio
import time

import pytest

from orion_recall.errors import ModelError, SourceError
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.recall.report.reply import reply, reply_json
from orion_recall.recall.search import all_sources
from orion_recall.recall.search.all_sources import FallbackSource
from orion_recall.recall.types import Recalled, Sources
from orion_recall.values import SourceName
from tests.samples.recall_fakes import NOW, FakeSource, SilentReader, hit, profile, query, sources, view

HANG_S = 60.0
CRANE = view("m1", "The harbour crane needs a gearbox.", ts=NOW - 3600, source_ref="record")
SHED = view("m2", "The shed is painted.")
INDEX: tuple[SourceName, ...] = ("vector", "lexical")


def away(name: SourceName) -> FakeSource:
    return FakeSource(name, errors=[SourceError("the index is gone") for _ in range(9)])


def hung(name: SourceName) -> FakeSource:
    return FakeSource(name, opened=asyncio.Event())


def record(**changes: object) -> FakeSource:
    return FakeSource("lexical", [hit("m1", 1.2, read=lambda: CRANE)], **changes)  # pyright: ignore[reportArgumentType]


async def ask(made: Sources, *, timeout_s: float = HANG_S, **changes: object) -> Recalled:
    return await recall(query(), profile(**changes), made, now=NOW, timeout_s=timeout_s)


def scene(tokens: TokenCounter, *arms: FakeSource, found: FakeSource) -> Sources:
    return sources(tokens, arms, SHED, fallback=FallbackSource(source=found))


async def test_while_the_index_answers_nobody_else_is_asked(tokens: TokenCounter) -> None:
    found = record()
    one_arm_is_enough = scene(tokens, away("vector"), FakeSource("lexical"), found=found)
    assert (await ask(one_arm_is_enough)).outcome == "degraded"
    assert found.requests == []


@pytest.mark.parametrize("broken", [SourceError("the index is gone"), ModelError("no weights")])
async def test_when_both_arms_fail_the_record_answers_in_their_place(
    tokens: TokenCounter, broken: Exception
) -> None:
    arms = [FakeSource(name, errors=[broken]) for name in INDEX]
    recalled = await ask(scene(tokens, *arms, FakeSource("rdf", [hit("m2", 1.0)]), found=record()))
    reports = {report.source: report for report in recalled.reports}
    assert recalled.outcome == "degraded"
    assert {item.scored.memory.id for item in recalled.selection.items} == {"m1", "m2"}
    assert (reports["lexical"].status, reports["lexical"].fallback) == ("failed", "record")
    assert (reports["vector"].status, reports["vector"].fallback, reports["vector"].hits) == ("failed", None, ())


async def test_it_alone_keeps_a_recall_from_failing_and_is_counted(tokens: TokenCounter) -> None:
    recalled = await ask(scene(tokens, *map(away, INDEX), found=record()), rdf_top_k=0, enable_sql_timeline=False)
    assert recalled.outcome == "degraded"
    decided = decision(
        RequestFacts(decision_id="d", corr_id="c"), outcome="degraded", latency_ms=1, recalled=recalled
    )
    assert decided.sources["lexical"].model_dump(exclude={"ms"}) == {
        "status": "failed", "count": 1, "error": "the index is gone", "stood_in": "record",
    }  # fmt: skip
    assert decided.backend_counts == {"vector": 0, "lexical": 1}
    answer = reply(query(options={}), recalled, latency_ms=1, profile="p", decision_id="d")
    assert reply_json(answer).count(b"stood_in") == 1, "a source for which nobody stood in does not name it"
    assert answer.bundle.items[0].source_ref == "record"


async def test_a_record_that_finds_nothing_has_answered(tokens: TokenCounter) -> None:
    recalled = await ask(
        scene(tokens, *map(away, INDEX), found=FakeSource("lexical")), rdf_top_k=0, enable_sql_timeline=False
    )
    assert recalled.outcome == "degraded"
    assert recalled.selection.items == ()


async def test_a_record_that_is_away_too_is_said(tokens: TokenCounter) -> None:
    found = FakeSource("lexical", errors=[SourceError("no Postgres")])
    recalled = await ask(scene(tokens, *map(away, INDEX), found=found), rdf_top_k=0, enable_sql_timeline=False)
    assert recalled.outcome == "failed"
    error = {report.source: report.error for report in recalled.reports}["lexical"]
    assert error == "the index is gone; the fallback (record) failed: no Postgres"


async def test_an_index_that_hangs_is_stood_in_for_within_the_same_time(
    tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_sources, "PATIENCE", 0.05)  # a slow machine has the rest of the time for the record
    began = time.perf_counter()
    recalled = await ask(scene(tokens, *map(hung, INDEX), found=record()), timeout_s=1.5)
    assert time.perf_counter() - began < HANG_S
    reports = {report.source: report for report in recalled.reports}
    assert (reports["lexical"].status, reports["lexical"].fallback) == ("late", "record")
    assert [item.scored.memory.id for item in recalled.selection.items] == ["m1"]


async def test_if_all_of_them_hang_the_deadline_holds_and_the_record_is_left_alone_after_three(
    tokens: TokenCounter,
) -> None:
    found = FakeSource("lexical", opened=asyncio.Event())
    made = scene(tokens, *map(hung, INDEX), found=found)
    for _ in range(3):
        began = time.perf_counter()
        assert (await ask(made, timeout_s=0.1)).outcome == "failed"
        assert time.perf_counter() - began < HANG_S
    assert len(found.requests) == 3
    recalled = await ask(made, timeout_s=HANG_S)
    assert len(found.requests) == 3
    error = {report.source: report.error for report in recalled.reports}["lexical"] or ""
    assert error.endswith("the fallback (record) failed: left alone after: no answer within 100 ms")


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_an_index_that_answers_late_but_in_time_wins_and_the_search_in_its_place_is_cancelled(
    tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_sources, "PATIENCE", 0.001)
    opened = asyncio.Event()
    found = FakeSource("lexical", opened=asyncio.Event())
    made = scene(tokens, FakeSource("vector", [hit("m2", 0.9)], opened=opened), found=found)
    before = asyncio.all_tasks()
    asking = asyncio.create_task(ask(made))
    while not found.requests:
        await asyncio.sleep(0.01)
    opened.set()
    recalled = await asking
    assert recalled.outcome == "ok"
    assert all(report.fallback is None for report in recalled.reports)
    # A search that was not cancelled would wait for ever.
    async with asyncio.timeout(30):
        while not asyncio.all_tasks() <= before:
            await asyncio.sleep(0.01)


async def test_a_left_alone_index_costs_no_waiting(tokens: TokenCounter) -> None:
    made = scene(tokens, *map(hung, INDEX), found=record())
    for _ in range(3):
        await ask(made, timeout_s=0.05)
    began = time.perf_counter()
    recalled = await ask(made, timeout_s=HANG_S)
    assert time.perf_counter() - began < HANG_S / 2
    assert [item.scored.memory.id for item in recalled.selection.items] == ["m1"]


async def test_what_the_record_has_read_is_not_fetched_from_an_index_that_hangs(tokens: TokenCounter) -> None:
    made = sources(tokens, map(away, INDEX), readers=(SilentReader(),), fallback=FallbackSource(source=record()))
    began = time.perf_counter()
    assert (await ask(made, timeout_s=HANG_S)).selection.items
    assert time.perf_counter() - began < HANG_S / 2


async def test_for_a_profile_without_keywords_it_stands_in_for_the_vectors_and_is_no_similarity(
    tokens: TokenCounter,
) -> None:
    recalled = await ask(
        scene(tokens, away("vector"), found=record()), lexical_top_k=0, rdf_top_k=0, enable_sql_timeline=False
    )
    (item,) = recalled.selection.items
    assert item.scored.candidate.best_source == "vector"
    assert "similarity" not in item.scored.parts


async def test_a_profile_without_the_index_has_nothing_to_be_stood_in_for(tokens: TokenCounter) -> None:
    found = record()
    made = scene(tokens, away("rdf"), found=found)
    recalled = await ask(made, vector_top_k=0, lexical_top_k=0, enable_sql_timeline=False)
    assert recalled.outcome == "failed"
    assert found.requests == []
