from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from orion_recall.errors import ModelError, SourceError
from orion_recall.recall.candidates.fetch import nearest_passages, with_passages
from orion_recall.values import Question
from tests.samples.recall_fakes import view
from tests.samples.source_samples import request

QUESTION: Question = request("where is the kiln?").question


class Finder:
    """Names these passages, or fails; without an answer it waits for ever."""

    def __init__(self, answer: Mapping[int, int] | Exception | None) -> None:
        self._answer, self.asked = answer, 0

    async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
        self.asked += 1
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer or {}


async def found(by: Finder | None, *, keys: Sequence[int] = (1, 2), timeout_s: float = 5, is_away: bool = False):
    return await nearest_passages(QUESTION, "acme", keys, by, timeout_s=timeout_s, is_away=is_away)


async def test_the_nearest_passages_are_named():
    assert await found(Finder({2: 3})) == {2: 3}


@pytest.mark.parametrize("error", [SourceError("away"), ModelError("away")])
async def test_an_error_leaves_the_first_passages(error: Exception):
    assert await found(Finder(error)) == {}


async def test_who_does_not_answer_in_time_is_not_waited_for():
    assert await found(Finder(None), timeout_s=0.01) == {}


async def test_an_index_that_is_away_is_not_asked():
    finder = Finder({2: 3})
    assert await found(finder, is_away=True) == {}
    assert await found(finder, keys=()) == {}
    assert await found(finder, timeout_s=0) == {}
    assert await found(None) == {}
    assert finder.asked == 0


def test_a_memory_gets_the_number_of_its_best_passage():
    text = "first part, second part"
    memories = {1: view("long", text, passages=(0, 11, 6, len(text))), 2: view("short")}
    assert with_passages(memories, {}) is memories
    chosen = with_passages(memories, {1: 1, 3: 2})
    assert (chosen[1].best_span, chosen[1].best_text) == ((6, len(text)), "part, second part")
    assert chosen[2] == memories[2]
    assert memories[1].best_text == "first part,"


def test_a_number_beyond_the_passages_is_the_whole_text():
    assert view("cut otherwise now", "some text", passages=(0, 4), passage=3).best_text == "some text"
