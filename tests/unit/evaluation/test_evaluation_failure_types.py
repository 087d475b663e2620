from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.evaluation.failure_types import FailureType, FailureTypes
from orion_recall.text.normal import text_hash
from orion_recall.values import NO_TIME, MemoryView, QuestionTime
from orion_recall.when.times import times

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def memory(text: str, session: str = "s-1") -> MemoryView:
    return MemoryView(id="m", text=text, text_hash=text_hash(text), session_id=session)


def types(
    question: str, *missed: str, time: QuestionTime = NO_TIME, session: str | None = None, best: str = "s-1"
) -> tuple[FailureType, ...]:
    query = JudgedQuery(
        id="q", conversation="c", text=question, category="none", evidence=frozenset("m"), asked_at=None,
        scored=True, line=1, session_id=session,
    )  # fmt: skip
    return FailureTypes().of(query, [memory(text) for text in missed], best=memory("", best), time=time)


@pytest.mark.parametrize(
    ("question", "missed", "expected"),
    [
        ("What did we say about ML?", "Machine learning is next on the list.", ("semantic_gap",)),
        ("What about quantum computing?", "The quantum course begins in May.", ("several_words",)),
        ("Which gardens flood?", "A garden floods.", ()),
        ("What was that thing we discussed?", "We discussed a thing.", ("pronoun",)),
        ("Who sold the boat?", "She sold the boat.", ("pronoun",)),
        ("Wo ist das Boot?", "Boot: wo ist er?", ("pronoun",)),
    ],
)
def test_the_words_tell_the_type(question: str, missed: str, expected: tuple[FailureType, ...]) -> None:
    assert types(question, missed) == expected


def test_a_time_and_another_session_are_types_of_their_own() -> None:
    question = "Who sold the boat in May 2021?"
    told = times(question, NOW)
    assert told.intervals
    assert types(question, "Who sold the boat in May 2021", time=told) == ("time",)
    assert types("Who sold the boat?", "Bo sold the boat.", best="s-2") == ("other_session",)
    assert types("Who sold the boat?", "Bo sold the boat.", session="s-1", best="s-2") == ()


def test_several_missed_memories_may_each_add_a_type() -> None:
    assert types("What about quantum computing?", "The quantum course.", "A new processor.") == (
        "semantic_gap",
        "several_words",
    )
