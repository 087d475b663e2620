from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orion_recall.index.passages import (
    MOST_TEXTS,
    MemorySearch,
    compared_for,
    dense_forms,
    in_parts,
    nearest,
    passage_key,
    points_of,
    spans_of,
    tenants_of,
)
from orion_recall.index.text_forms import dense_form
from orion_recall.text.passages import MOST_PASSAGES
from tests.samples.source_samples import changes, memory

MEMORY, ANOTHER = 7 << 10, 8 << 10
LONG = "The kiln was fired at dawn and cooled down slowly. " * 60


def test_a_short_memory_is_embedded_as_a_whole():
    short = memory("short", "The kiln is cold.", speaker="Ruth", title="Kiln")
    assert dense_forms(short) == [dense_form(short)]


def test_each_passage_is_embedded_after_speaker_and_title():
    long = memory("long", LONG, speaker="Ruth", title="Kiln")
    forms = dense_forms(long)
    assert len(forms) == len(spans_of(long)) > 2
    head = dense_form(long).removesuffix(LONG)
    assert "Ruth" in head
    assert "Kiln: " in head
    assert all(form.startswith(f"{head}The kiln was") for form in forms)


def test_passages_are_of_a_tenant_that_no_memory_can_have():
    own, further = tenants_of("ours")
    assert own == "ours"
    assert "\ufffd" in further


def test_the_first_passage_is_the_memorys_own_point():
    assert passage_key(7, 0) == 7
    assert len({passage_key(one, number) for one in (MEMORY, ANOTHER) for number in range(MOST_PASSAGES)}) == 64
    assert max(passage_key((1 << 63) - 1, number) for number in range(MOST_PASSAGES)) < 1 << 64
    assert points_of([MEMORY, ANOTHER], {ANOTHER: 2}) == {MEMORY: MEMORY, passage_key(ANOTHER, 2): ANOTHER}


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


def test_the_nearest_passage_is_named_where_it_is_not_the_first():
    found = [(passage_key(MEMORY, 1), 0.9), (ANOTHER, 0.8), (passage_key(ANOTHER, 1), 0.7), (MEMORY, 0.6)]
    assert nearest(found, [ANOTHER, MEMORY, 9 << 10]) == {MEMORY: 1}
    assert compared_for([MEMORY, ANOTHER]) >= 2 * 2


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
