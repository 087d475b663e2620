from __future__ import annotations

import itertools
from datetime import datetime

from tests.bench.corpus import corpus, questions, without_names

_NOW = 1_790_000_000.0


def test_the_same_seed_and_clock_give_the_same_memories() -> None:
    assert corpus(150, now=_NOW) == corpus(150, now=_NOW)
    assert corpus(150, now=_NOW).memories != corpus(150, now=_NOW, seed=8).memories


def test_memories_are_turns_of_a_chat_with_ids_of_their_own() -> None:
    memories = corpus(500, now=_NOW).memories

    assert len({memory["id"] for memory in memories}) == len(memories) == 500
    assert all(10 <= len(memory["text"].split()) <= 40 for memory in memories)
    assert len({memory["session_id"] for memory in memories}) == 26


def test_one_memory_in_a_hundred_fell_within_the_last_three_hours_and_none_lies_ahead() -> None:
    ages = [
        _NOW - datetime.fromisoformat(memory["occurred_at"]).timestamp()
        for memory in corpus(2000, now=_NOW).memories
    ]

    assert sum(age < 3 * 3600 for age in ages) == 20
    assert min(ages) > 0
    assert max(ages) < 366 * 86_400


def test_questions_never_repeat_even_without_the_names_in_them() -> None:
    asked = list(itertools.islice(questions(), 3000))

    assert len({without_names(question) for question in asked}) == 3000
