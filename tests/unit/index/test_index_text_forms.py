from __future__ import annotations

from orion_recall.index.text_forms import context_form, dense_form, keyword_form
from orion_recall.values import Change
from tests.samples.source_samples import beside, memory

DAY = "2026-03-01T09:00:00Z"


def test_date_and_speaker_belong_to_both_forms():
    turn = memory("a", "I mended it.", speaker="Ana", occurred_at=DAY, tags=["harbour"], title="Crane")
    assert dense_form(turn) == "Ana, 1 March 2026: Crane: I mended it."
    assert keyword_form(turn) == "Crane Ana 1 March 2026 I mended it. harbour"


def test_the_context_has_the_words_of_the_turns_beside_it():
    before, turn, after = (memory(name, text) for name, text in (("a", "Mended?"), ("b", "Yes."), ("c", "Good.")))
    assert context_form(Change(position=1, memory=turn, previous=beside(before), following=beside(after))) == (
        "Yes. Mended? Good."
    )
    assert context_form(Change(position=1, memory=turn)) == "Yes."
