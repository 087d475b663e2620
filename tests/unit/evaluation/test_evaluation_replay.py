from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from orion_recall.errors import TransientSourceError
from orion_recall.evaluation.replay import ReplayedCloseness, ReplayedReader, ReplayedSource
from orion_recall.text.normal import text_hash
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest, SourceName


class Counting:
    """A source and a reader that count what they are asked, and fail as long as they are told to."""

    name: SourceName = "vector"

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[object] = []
        self._failures = failures

    async def search(self, request: SearchRequest) -> Sequence[Hit]:
        self.asked.append(request)
        if len(self.asked) <= self._failures:
            raise TransientSourceError("not yet")
        return [Hit(request.limit, 1.0)]

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        self.asked.append(tuple(keys))
        return {key: MemoryView(id=str(key), text="", text_hash=text_hash("")) for key in keys if key > 0}

    async def why_off(self) -> str | None:
        return "no tokens"

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        self.asked.append((text, *keys))
        return {key: 0.5 for key in keys if key > 0}


def request(limit: int = 5, *, timeout_s: float = 1.0, tenant: str = "a") -> SearchRequest:
    question = Question(text="q", dense_text="q", keyword_text="q", terms=frozenset("q"), now=1.0, text_hash="h")
    return SearchRequest(question=question, scope=Scope(tenant=tenant), limit=limit, timeout_s=timeout_s)


async def test_a_request_is_searched_once_however_long_it_may_take():
    inner = Counting()
    source = ReplayedSource(inner)
    first = await source.search(request())
    assert await source.search(request(timeout_s=60)) == first == [Hit(5, 1.0)]
    assert len(inner.asked) == 1


@pytest.mark.parametrize("other", [request(6), request(tenant="b"), replace(request(), min_score=0.5)])
async def test_another_request_is_another_search(other: SearchRequest):
    inner = Counting()
    source = ReplayedSource(inner)
    await source.search(request())
    await source.search(other)
    assert len(inner.asked) == 2


async def test_what_failed_is_tried_again():
    source = ReplayedSource(Counting(failures=1))
    with pytest.raises(TransientSourceError):
        await source.search(request())
    assert await source.search(request()) == [Hit(5, 1.0)]


async def test_a_question_is_compared_with_a_memory_once():
    inner = Counting()
    late = ReplayedCloseness(inner)
    assert await late.closeness("q", [1, -2]) == {1: 0.5}
    assert await late.closeness("q", [3, 1, -2]) == {3: 0.5, 1: 0.5}
    assert await late.closeness("other", [1]) == {1: 0.5}
    assert inner.asked == [("q", 1, -2), ("q", 3), ("other", 1)]
    assert await late.why_off() == "no tokens"


async def test_a_memory_is_read_once_and_so_is_one_that_is_not_there():
    inner = Counting()
    reader = ReplayedReader(inner)
    assert list(await reader.fetch([1, -2])) == [1]
    assert list(await reader.fetch([-2, 1, 3])) == [1, 3]
    assert inner.asked == [(1, -2), (3,)]
