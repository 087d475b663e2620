"""Questions that name a time, over memories that only their time tells apart: answered from the right interval."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from serving import filled_stores

from orion_recall.contracts import RecallQueryV1, read_message
from orion_recall.evaluation.dataset import read_memories, read_queries
from orion_recall.profile import Profile
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.scoring.intervals import overlap
from orion_recall.serving.backends import Opened
from orion_recall.values import Interval
from orion_recall.when.times import times
from tests.stand_ins.patient_profiles import patient

DATA = Path(__file__).parents[1] / "data" / "times"
QUESTIONS = read_queries(DATA / "queries.jsonl")
TENANT = "times"
AS_OF = "2026-11-22T12:00:00Z"


@pytest.fixture(scope="module")
async def opened() -> AsyncGenerator[Opened]:
    async with filled_stores(read_memories(DATA / "memories.jsonl")) as stores:
        yield stores


def profile(name: str = "reflect.v1", **time: object) -> Profile:
    shipped = patient(name)
    return shipped.model_copy(update={"time": shipped.time.model_copy(update=time)})


async def ask(opened: Opened, text: str, used: Profile, as_of: str = AS_OF, **options: object) -> Recalled:
    asked = read_message(RecallQueryV1, {"fragment": text, "options": {"as_of": as_of, **options}}, "payload")
    return await recall(asked, used, opened.sources, tenant=TENANT, timeout_s=60)


@pytest.mark.parametrize("name", ["assist.light.v1", "reflect.v1", "deep.graph.v1"])
async def test_questions_are_answered_from_the_right_interval(opened: Opened, name: str) -> None:
    """The best is of the time of the memory that answers, and nearly always it is that memory."""
    elsewhere: list[str] = []
    another: list[str] = []
    for question in QUESTIONS:
        recalled = await ask(opened, question.text, profile(name))
        best = recalled.ranked[0].memory
        if best.id not in question.evidence:
            another.append(f"{question.text} {best.id}")
        if not overlap(intervals(recalled), best.ts):
            elsewhere.append(f"{question.text} {best.id}")
    assert len(QUESTIONS) >= 40
    assert len(elsewhere) <= 0.05 * len(QUESTIONS), elsewhere
    assert len(another) <= 0.1 * len(QUESTIONS), another


def test_every_interval_holds_the_memory_that_answers() -> None:
    """Without any search: the grammar against what was judged."""
    moments = {memory.id: memory.occurred_at for memory in read_memories(DATA / "memories.jsonl")}
    for question in QUESTIONS:
        found = times(question.text, datetime.fromisoformat(AS_OF)).intervals
        assert found, question.text
        (answer,) = question.evidence
        moment = moments[answer]
        assert moment is not None
        told = [one for one in found if one.start is None or one.start <= moment]
        assert any(one.end is None or moment < one.end for one in told), question.text


def intervals(recalled: Recalled) -> tuple[Interval, ...]:
    assert recalled.understood is not None
    return recalled.understood.question.time.intervals


async def test_a_profile_may_filter_by_the_named_time(opened: Opened) -> None:
    recalled = await ask(opened, "What did we have for dinner in July?", profile(filter=True))
    assert [item.memory.id for item in recalled.ranked] == ["dinner-5"]
    assert recalled.selection.dropped["other_time"] > 0
    everything = await ask(opened, "What did we have for dinner?", profile(filter=True))
    assert len(everything.ranked) > 5
    assert "other_time" not in everything.selection.dropped


async def test_the_index_is_searched_again_inside_the_named_time(opened: Opened) -> None:
    """What is of the day gains a list of its own; the rest loses by it."""
    question, used = "Tell me about the crane on October 13, 2023", profile(search_weight=0.5)
    recalled = await ask(opened, question, used)
    assert recalled.ranked[0].memory.id == "crane-6"
    fused = {item.memory.id: item.parts["fusion"] for item in recalled.ranked}
    without = await ask(opened, question, profile())
    before = {item.memory.id: item.parts["fusion"] for item in without.ranked}
    assert fused["crane-6"] == 1.0 >= before["crane-6"]
    assert fused["crane-1"] < before["crane-1"]


async def test_days_begin_where_the_asker_is(opened: Opened) -> None:
    """At 23:30 UTC on the 21st it is the 22nd in Kolkata: "today" there is not the dinner of the evening before."""
    as_of = "2026-11-21T23:30:00Z"
    for zone, start in ((None, 21), ("Asia/Kolkata", 22), ("-10:00", 21)):
        options = {} if zone is None else {"timezone": zone}
        recalled = await ask(opened, "Who came by today?", profile(), as_of, **options)
        (today,) = intervals(recalled)
        assert today.start is not None
        offset = {None: 0, "Asia/Kolkata": 5.5, "-10:00": -10}[zone]
        assert datetime.fromtimestamp(today.start + offset * 3600, UTC).day == start
