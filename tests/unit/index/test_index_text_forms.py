from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orion_recall.index.text_forms import context_form, dense_form, event_time, keyword_form
from orion_recall.values import Change
from tests.samples.source_samples import beside, memory

DAY = "2026-03-01T09:00:00Z"


def test_date_and_speaker_belong_to_both_forms():
    turn = memory("a", "I mended it.", speaker="Ana", occurred_at=DAY, tags=["harbour"], title="Crane")
    assert dense_form(turn) == "Ana, 1 March 2026: Crane: I mended it."
    assert keyword_form(turn) == "Crane Ana 1 March 2026 I mended it. harbour"


def test_a_bare_memory_is_its_text():
    bare = memory("a", "I mended it.")
    assert dense_form(bare) == keyword_form(bare) == "I mended it."


def test_the_context_has_the_words_of_the_turns_beside_it():
    before, turn, after = (memory(name, text) for name, text in (("a", "Mended?"), ("b", "Yes."), ("c", "Good.")))
    assert context_form(Change(position=1, memory=turn, previous=beside(before), following=beside(after))) == (
        "Yes. Mended? Good."
    )
    assert context_form(Change(position=1, memory=turn)) == "Yes."


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"occurred_at": 0, "mentioned_at": 99}, 0.0),
        ({"occurred_at": 5, "mentioned_at": 99}, 5.0),
        ({"mentioned_at": 99}, 99.0),
        ({}, None),
    ],
    ids=str,
)
def test_a_memorys_time_is_when_it_happened_else_when_it_was_mentioned(
    fields: dict[str, Any], seconds: float | None
):
    assert event_time(memory("a", "b", **fields)) == seconds


def test_a_time_beyond_the_calendar_is_no_day():
    late = memory("a", "b", occurred_at="9999-12-31T23:59:59Z")
    assert dense_form(late) == "31 December 9999: b"
    assert dense_form(replace(late, occurred_at=1e18)) == "b"
