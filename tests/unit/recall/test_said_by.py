"""Whose words are asked for: only of somebody who has spoken in the scope; else it is an ordinary search."""

from __future__ import annotations

import pytest

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import NOW, FakeSource, Speakers, hit, profile, query, sources, view


async def ask(
    tokens: TokenCounter, fragment: str, *memories: MemoryView, speakers: tuple[str, ...] = ()
) -> Recalled:
    hits = [hit(memory.id, 0.9 - place / 100) for place, memory in enumerate(memories)]
    made = sources(tokens, [FakeSource("vector", hits)], *memories, lexicon=Speakers(*speakers))
    return await recall(query(fragment), profile(), made, now=NOW)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("GDPR article 17: a person may ask that data is erased.", "What does GDPR say about erasing?"),
        ("ISO 27001 wants a register of assets.", "What does ISO 27001 say about assets?"),
        ("README: start the bus before the worker.", "What did the README say about the bus?"),
        ("Terraform: state is locked while it plans.", "What does Terraform say about the state?"),
        ("Handbook 4.2: two people sign each release.", "What does the handbook say about a release?"),
    ],
)
async def test_a_document_that_looks_like_a_speaker_is_searched_for(
    tokens: TokenCounter, text: str, question: str
) -> None:
    other = view("other", "The kiln was fired twice.", speaker="Bo")
    recalled = await ask(tokens, question, view("document", text), other, speakers=("Bo",))
    assert "document" in {item.scored.memory.id for item in recalled.selection.items}
    assert "not_said_by" not in recalled.selection.dropped


async def test_the_words_of_somebody_who_has_spoken_narrow_the_search(tokens: TokenCounter) -> None:
    ana = view("ana", "I prefer the window seat.", speaker="Ana", ts=NOW - 60)
    bo = view("bo", "I prefer the aisle seat.", speaker="Bo", ts=NOW - 60)
    recalled = await ask(tokens, "What did Ana say about the seat?", bo, ana, speakers=("Ana", "Bo"))
    assert [item.scored.memory.id for item in recalled.selection.items] == ["ana"]
    assert recalled.selection.dropped == {"not_said_by": 1}


async def test_where_nothing_of_theirs_is_found_the_others_stay(tokens: TokenCounter) -> None:
    bo = view("bo", "I prefer the aisle seat.", speaker="Bo", ts=NOW - 60)
    recalled = await ask(tokens, "What did Ana say about the seat?", bo, speakers=("Ana", "Bo"))
    assert [item.scored.memory.id for item in recalled.selection.items] == ["bo"]
