"""Texts, questions and settings that a person may give, and that once ended a recall or cost others theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.decision import RequestFacts, decision
from orion_recall.when.told import told_times
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

FIRST, LAST = -62_135_596_800.0, 253_402_214_400.0
"""The first and the last day of the calendar, in epoch seconds."""


def day(text: str, said: datetime) -> list[str]:
    return [f"{datetime.fromtimestamp(one.since, UTC):%Y-%m-%d}" for one in told_times(text, said)]


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
