from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.index.passages import (
    MOST_TEXTS,
    MemorySearch,
    dense_forms,
    in_parts,
    passage_key,
    spans_of,
)
from orion_recall.index.text_forms import dense_form
from tests.samples.source_samples import changes, memory

MEMORY, ANOTHER = 7 << 10, 8 << 10
LONG = "The kiln was fired at dawn and cooled down slowly. " * 60


def test_each_passage_is_embedded_after_speaker_and_title():
    long = memory("long", LONG, speaker="Ruth", title="Kiln")
    forms = dense_forms(long)
    assert len(forms) == len(spans_of(long)) > 2
    head = dense_form(long).removesuffix(LONG)
    assert "Ruth" in head
    assert "Kiln: " in head
    assert all(form.startswith(f"{head}The kiln was") for form in forms)


class Searched:
    """A search that gives the first so many of these points."""

    def __init__(self, *points: tuple[int, float]) -> None:
        self.points, self.asked, self.resolved = points, list[int](), list[int]()

    async def best(self, search: MemorySearch, limit: int) -> list[tuple[int, float]]:
        return await search.best(limit, self._found, self._memories_of)

    async def _found(self, most: int) -> Sequence[tuple[int, float]]:
        self.asked.append(most)
        return self.points[:most]

    async def _memories_of(self, keys: Sequence[int]) -> Mapping[int, int]:
        self.resolved += keys
        return {key: MEMORY if key in (passage_key(MEMORY, one) for one in range(32)) else ANOTHER for key in keys}


async def test_a_memory_counts_once_by_its_best_passage():
    searched = Searched(
        (passage_key(MEMORY, 1), 0.9), (passage_key(ANOTHER, 3), 0.8), (MEMORY, 0.7), (passage_key(MEMORY, 2), 0.6)
    )
    assert await searched.best(MemorySearch(), 10) == [(MEMORY, 0.9), (ANOTHER, 0.8)]
    assert searched.resolved == [passage_key(ANOTHER, 3)], "only what is not known anyway is asked for"


async def test_the_search_is_repeated_until_there_are_enough_memories():
    many = [(passage_key(MEMORY, number), 1 - number / 100) for number in range(20)]
    searched, search = Searched(*many, (ANOTHER, 0.5), (9 << 10, 0.4)), MemorySearch()
    assert await searched.best(search, 2) == [(MEMORY, 1.0), (ANOTHER, 0.5)]
    assert searched.asked == [2, 4, 8, 16, 32]
    assert await searched.best(search, 2) == [(MEMORY, 1.0), (ANOTHER, 0.5)]
    assert searched.asked[5:] == [32], "it begins where the last one ended"


async def test_a_page_of_long_memories_is_written_in_parts():
    one = memory("long", LONG)
    long = [replace(one, id=str(place)) for place in range(MOST_TEXTS // 2)]
    told = changes(*long)
    parts = await in_parts(told)
    assert len(parts) > 1
    assert [change for part in parts for change in part] == list(told)
    assert all(sum(len(spans_of(one.memory)) for one in part) <= MOST_TEXTS for part in parts)
    short = changes(*(memory(str(place), "The kiln is cold.") for place in range(200)))
    assert await in_parts(short) == [short]
