"""Texts, questions and settings that a person may give, and that once ended a recall or cost others theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.text.reported import reports
from orion_recall.text.small_talk import small_talk
from orion_recall.when.times import session_named, times
from orion_recall.when.told import told_times
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view
from tests.samples.timing import grows_linearly

FIRST, LAST = -62_135_596_800.0, 253_402_214_400.0
"""The first and the last day of the calendar, in epoch seconds."""
CRANES = (view("m1", "The crane is repaired.", ts=NOW), view("m2", "The gearbox is broken.", ts=NOW))
BOTH = (hit("m1", 0.4), hit("m2", 0.3))


def day(text: str, said: datetime) -> list[str]:
    return [f"{datetime.fromtimestamp(one.since, UTC):%Y-%m-%d}" for one in told_times(text, said)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (datetime(2024, 2, 1), "2024-02-29"),
        (datetime(2025, 6, 1), "2028-02-29"),
        (datetime(2028, 3, 1), "2032-02-29"),
        (datetime(2097, 1, 1), "2104-02-29"),
    ],
)
def test_the_29th_of_february_that_is_ahead_may_be_years_away(said: datetime, told: str):
    now = said.replace(tzinfo=UTC)
    assert day("My birthday is on 29 February.", now) == [told]
    start = times("what is planned for 29 February?", now).intervals[0].start
    assert start == datetime.fromisoformat(f"{told}T00:00:00+00:00").timestamp()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Tomorrow we see the pyramids, built 4500 years ago.", "2026-03-05"),
        ("Yesterday I read about Rome, 2800 years ago.", "2026-03-03"),
        ("Signed on Friday, valid until 12/31/9999.", "2026-02-27"),
    ],
)
def test_a_year_that_no_calendar_has_costs_itself_alone(text: str, told: str):
    assert told in day(text, datetime(2026, 3, 4, tzinfo=UTC))


@pytest.mark.parametrize("text", ["at f\u0131ve pm.", "at m\u0131dnight", "half past \u017f\u0131x"])
def test_a_time_in_letters_that_only_resemble_its_own_is_none(text: str):
    assert day(f"We meet on Friday {text}", datetime(2026, 3, 4, tzinfo=UTC)) == ["2026-03-06"]


def test_words_in_letters_that_only_resemble_their_own_are_no_such_words():
    assert session_named("what did we say in our s\u0131xth session?") is None
    small_talk("It'\u017f me")


@pytest.mark.parametrize("piece", ["Ana: ok\n", "ana "])
def test_what_somebody_says_is_looked_for_in_linear_time(piece: str):
    assert grows_linearly(lambda size: reports(piece * size, {"ana"}), 100, 1000)


async def answer(text: str, found: Any, memories: Any, **settings: Any) -> list[str]:
    """The ids of what is selected, by recall and decision."""
    arms = [FakeSource(name, found) for name in ("vector", "lexical", "rdf")]
    asked = query(text)
    got = await recall(asked, profile(**settings), sources(TokenCounter(), arms, *memories), now=NOW)
    facts = RequestFacts(
        decision_id="00000000-0000-4000-8000-000000000000", corr_id="c", query=asked, tenant="default", profile="t"
    )
    return list(decision(facts, outcome=got.outcome, latency_ms=1, recalled=got).selected_ids)


@pytest.mark.parametrize(
    "off", [{"lexical_top_k": 0, "ranking": {"neighbour": 0.2}}, {"vector_top_k": 0, "lexical_top_k": 5}]
)
async def test_a_cascade_works_with_a_source_of_the_index_off(off: dict[str, Any]):
    ranking = {"ranking": {"second_step": 0.2}} | off
    cascade = {"enabled": True, "threshold": 1.0, "merge": {"score": 0.2}}
    assert set(await answer("what about the crane?", BOTH, CRANES, cascade=cascade, **ranking)) <= {"m1", "m2"}


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (FIRST, "The crane was repaired a month ago."),
        (FIRST, "The crane was repaired three days ago."),
        (FIRST, "The crane came last Friday, a year ago."),
        (LAST, "The crane will be here in 3 weeks."),
        (LAST, "The crane comes tomorrow."),
    ],
)
async def test_a_memory_from_an_end_of_the_calendar_is_shown(at: float, text: str):
    assert await answer("what about the crane?", [hit("m1", 0.9)], [view("m1", text, ts=at)]) == ["m1"]


async def test_a_question_about_the_first_day_of_the_calendar_is_decided():
    assert await answer("what happened on 0001-01-01?", (), ()) == []
