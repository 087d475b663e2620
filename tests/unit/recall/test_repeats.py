"""Equal texts: one line that names all who said it and all days, with all ids; nothing else is dropped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.recall.ranking.score import said_once
from orion_recall.recall.types import Dropped
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, scored, sources, view

DAY = 86_400.0


async def ask(tokens: TokenCounter, fragment: str, *memories: MemoryView, **changes: Any) -> Recalled:
    hits = [hit(memory.id, 0.9 - place / 100) for place, memory in enumerate(memories)]
    arms = [FakeSource("vector", hits), FakeSource("lexical", hits)]
    return await recall(query(fragment), profile(**changes), sources(tokens, arms, *memories), now=NOW)


def shown(recalled: Recalled) -> set[str]:
    return {item.scored.memory.id for item in recalled.selection.items}


async def test_equal_statements_of_several_people_are_one_line_that_names_them(tokens: TokenCounter) -> None:
    said = [view(f"m{n}", "I want pizza on Friday.", speaker=name, ts=NOW - 60.0 * n) for n, name in
            enumerate(["Ana", "Bo", "Dag"])]  # fmt: skip
    recalled = await ask(tokens, "Who wants pizza on Friday?", *said)
    (line,) = recalled.rendered.splitlines()
    assert all(name in line for name in ("Ana", "Bo", "Dag"))
    assert shown(recalled) == {"m0", "m1", "m2"}
    assert recalled.selection.dropped == {}


@pytest.mark.parametrize("changes", [{"max_total_items": 2}, {"max_total_items": 2, "max_per_source": 1}])
async def test_all_who_said_it_are_items_of_which_there_are_no_more_than_the_profile_allows(
    tokens: TokenCounter, changes: dict[str, int]
) -> None:
    said = [view(f"m{n}", "I want pizza on Friday.", speaker=name, ts=NOW - 60.0 * n) for n, name in
            enumerate(["Ana", "Bo", "Dag"])]  # fmt: skip
    recalled = await ask(tokens, "Who wants pizza on Friday?", *said, **changes)
    assert shown(recalled) == {"m0", "m1"}
    assert "Dag" not in recalled.rendered
    assert recalled.selection.dropped == {"max_total_items": 1}


async def test_the_same_said_again_by_the_same_speaker_on_the_same_day_is_dropped_for_the_first(
    tokens: TokenCounter,
) -> None:
    first = view("m0", "The gate code is 4471.", speaker="Ana", ts=NOW)
    recalled = await ask(tokens, "What is the gate code?", first, first._replace(id="m1", ts=NOW - 60))
    assert len(shown(recalled)) == 1
    assert recalled.selection.dropped == {"near_duplicate": 1}


@pytest.mark.parametrize(
    "texts",
    [
        ("Open the red valve before the pump starts.", "Never open the red valve before the pump starts."),
        ("Turn the left valve before the pump starts.", "Turn the right valve before the pump starts."),
        ("The invoice of March is 1,200 euro.", "The invoice of March is 1,300 euro."),
        ("The ticket OPS-14 is closed.", "The ticket OPS-15 is closed."),
        ("The standup is on Monday at nine.", "The standup is on Tuesday at nine."),
        ("The door code in Oslo is 4471.", "The door code in Bergen is 4471."),
    ],
)
async def test_texts_that_differ_in_anything_that_counts_are_all_handed_over(
    tokens: TokenCounter, texts: tuple[str, str]
) -> None:
    recalled = await ask(tokens, "What about it?", *(view(f"m{n}", text, ts=NOW) for n, text in enumerate(texts)))
    assert shown(recalled) == {"m0", "m1"}
    assert len(recalled.rendered.splitlines()) == 2


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "A "]), st.sampled_from([None, "Ana", "Bo"]),
                          st.sampled_from([None, 0.0, DAY, DAY + 60])), max_size=12))  # fmt: skip
def test_every_text_speaker_and_day_is_kept_once_and_the_rest_is_counted(
    said: list[tuple[str, str | None, float | None]],
) -> None:
    items = [scored(f"m{n}", text, speaker=who, ts=ts) for n, (text, who, ts) in enumerate(said)]
    dropped = Dropped()
    kept = said_once(items, dropped)
    every = [one for item in kept for one in (item, *item.same)]
    told = {(one.memory.text_hash, one.memory.speaker, one.memory.ts and one.memory.ts // DAY) for one in every}
    assert len(every) == len(told)
    assert len(every) + dropped["near_duplicate"] == len(items)
    assert len({item.memory.text_hash for item in kept}) == len(kept)
