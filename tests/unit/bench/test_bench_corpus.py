from __future__ import annotations

import itertools
from datetime import datetime

from tests.bench.corpus import corpus, questions, without_names

_NOW = 1_790_000_000.0


def test_the_same_seed_and_clock_give_the_same_memories() -> None:
    told = corpus(2000, now=_NOW).memories
    assert told == corpus(2000, now=_NOW).memories != corpus(2000, now=_NOW, seed=8).memories
    assert len({memory["id"] for memory in told}) == 2000
    ages = [_NOW - datetime.fromisoformat(memory["occurred_at"]).timestamp() for memory in told]
    assert sum(age < 3 * 3600 for age in ages) == 20
    assert 0 < min(ages) <= max(ages) < 366 * 86_400


def test_questions_never_repeat_even_without_the_names_in_them() -> None:
    asked = list(itertools.islice(questions(), 3000))
    assert len({without_names(question) for question in asked}) == 3000
