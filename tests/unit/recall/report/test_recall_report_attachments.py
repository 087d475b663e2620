from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orion_recall.contracts import MemoryBundleV1
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.reply import reply
from orion_recall.values import MemoryView, Question
from tests.samples.recall_fakes import NOW, FakeSource, hit, profile, query, sources, view

TEXT = "We spoke of rain. The crane needs a gearbox."
LONG = view("long", TEXT, entities=("Fjord Labs",), passages=(0, 17, 18, len(TEXT)), user_id="u-1")
SHORT = view("short", "Bo paints the crane for Fjord Labs.", entities=("Bo", "Fjord Labs"), user_id="u-1")
FOREIGN = view("foreign", "Fjord Labs sold the crane.", entities=("Fjord Labs", "Eve"), user_id="u-2")


class SecondPassage:
    async def numbers(self, question: Question, tenant: str, keys: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(keys, 1)


async def bundle(tokens: TokenCounter, *memories: MemoryView, **options: Any) -> MemoryBundleV1:
    arm = FakeSource("vector", [hit(one.id, 0.9 - place / 10) for place, one in enumerate(memories)])
    found = replace(sources(tokens, [arm], *memories), passages=SecondPassage())
    asked = query(options=options)
    recalled = await recall(asked, profile(), found, now=NOW)
    return reply(asked, recalled, latency_ms=1.0, profile="test.v1", decision_id="d-1").bundle


async def test_a_chunk_says_where_in_its_memory_it_is(tokens: TokenCounter) -> None:
    told = await bundle(tokens, LONG, SHORT, include={"chunks": True})
    assert told.chunks is not None
    assert {name: (one.memory_id, one.index, one.text) for name, one in told.chunks.items()} == {
        "long#1": ("long", 1, "The crane needs a gearbox."),
        "short#0": ("short", 0, SHORT.text),
    }
    one = told.chunks["long#1"]
    assert TEXT[one.start : one.end] == one.text
    assert told.entities is None


async def test_an_entitys_state_is_what_the_items_tell_of_it(tokens: TokenCounter) -> None:
    told = await bundle(tokens, LONG, SHORT, include={"entities": True})
    assert told.entities is not None
    assert set(told.entities) == {"Fjord Labs", "Bo"}
    labs = told.entities["Fjord Labs"]
    assert (labs.name, labs.memory_count, sorted(labs.memory_ids)) == ("Fjord Labs", 2, ["long", "short"])
    assert sorted(labs.observations) == sorted(item.snippet for item in told.items)
    assert told.entities["Bo"].memory_ids == ["short"]
    assert told.chunks is None


async def test_what_is_out_of_scope_is_told_by_neither(tokens: TokenCounter) -> None:
    """A source that forgets its filter: the other user's memory is named nowhere."""
    include = {"chunks": True, "entities": True}
    told = await bundle(tokens, SHORT, FOREIGN, scope="user", user="u-1", include=include)
    assert told.entities is not None
    assert told.chunks is not None
    assert set(told.entities) == {"Fjord Labs", "Bo"}
    assert told.entities["Fjord Labs"].memory_ids == ["short"]
    assert set(told.chunks) == {"short#0"}


async def test_without_asking_there_is_neither(tokens: TokenCounter) -> None:
    told = await bundle(tokens, SHORT)
    assert not {"entities", "chunks"} & told.model_fields_set
