"""Synthetic turns and questions, as many as are wanted: the words of real ones, put together anew.

A turn is the first half of one text and the second half of another, so that lengths and frequencies of words are
those of the data set. The same seed gives the same turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.memory.record.compose import compose
from orion_recall.values import Memory

TENANT = "scaling"
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_TURNS_A_SESSION = 20
_SECONDS_APART = 60.0
_SEED = 4


def synthetic_turns(
    memories: Sequence[Memory],
    count: int,
    *,
    first: int = 0,
    advanced: Callable[[int], None] = lambda done: None,
) -> list[Memory]:
    """So many turns of one tenant in sessions of twenty, a minute apart, the last of `first + count` at `NOW`."""
    made: list[Memory] = []
    for number in range(first, first + count):
        chosen = random.Random(f"{_SEED}-{number}")  # noqa: S311 (no secret)
        one, other = chosen.choice(memories), chosen.choice(memories)
        begun, ended = one.text.split(), other.text.split()
        text = " ".join([*begun[: (len(begun) + 1) // 2], *ended[len(ended) // 2 :]])
        at = NOW - (first + count - 1 - number) * _SECONDS_APART
        message = MemoryV1(
            id=f"t{number}",
            text=text or "nothing",
            speaker=one.speaker,
            session_id=f"s{number // _TURNS_A_SESSION}",
            occurred_at=datetime.fromtimestamp(at, UTC),
        )
        made.append(compose(message, TENANT))
        if number % 100 == 0:
            advanced(number - first)
    return made


def new_questions(
    queries: Sequence[JudgedQuery], memories: Sequence[Memory], count: int, *, what: str
) -> list[JudgedQuery]:
    """So many questions that no other `what` gets: real ones with two words more, so that no cache knows them."""
    chosen = random.Random(f"{_SEED}-{what}")  # noqa: S311 (no secret)
    said = " ".join(memory.text for memory in memories[:500])
    words = sorted({word for word in said.split() if word.isalpha()}) or ["x"]
    return [
        replace(
            chosen.choice(queries),
            id=f"{what}-{number}",
            conversation=TENANT,
            text=f"{chosen.choice(queries).text.rstrip('?')} {chosen.choice(words)} {chosen.choice(words)}?",
            asked_at=NOW,
            scope=None,
            session_id=None,
            user_id=None,
        )
        for number in range(count)
    ]
