"""The PageRank baseline of the founding document 004, against its own loops."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from orion_recall.contracts import MemoryV1
from orion_recall.evaluation.conversation_rank import ConversationRank
from orion_recall.graph.conversation import turn_keywords
from orion_recall.memory.record.compose import compose
from orion_recall.values import Memory

DAY = "2026-11-0{}T09:00:00Z"


def memory(name: str, text: str, day: int | None = 1, **fields: Any) -> Memory:
    dated = {} if day is None else {"occurred_at": DAY.format(day)}
    return compose(MemoryV1.model_validate({"id": name, "text": text, **dated, **fields}), "acme")


def as_written(turns: Sequence[Memory], query: str, damping: float, iterations: int) -> Mapping[str, float]:
    """The ranks by the loops of the document."""
    keywords = {one.id: turn_keywords(one.text) for one in turns}
    edges: list[tuple[str, str, float]] = []
    for one, other in pairwise(turns):
        if one.session_id == other.session_id:
            edges.append((one.id, other.id, 1.0))
    for place, one in enumerate(turns):
        for other in turns[place + 1 :]:
            overlap = len(keywords[one.id] & keywords[other.id])
            if overlap >= 2:
                edges.append((one.id, other.id, overlap / max(len(keywords[one.id]), len(keywords[other.id]))))
    out = {one.id: sum(source == one.id for source, _, _ in edges) for one in turns}
    matching = {one.id: 1.0 if keywords[one.id] & turn_keywords(query) else 0.0 for one in turns}
    ranks = dict(matching)
    for _ in range(iterations):
        ranks = {
            name: damping * sum(ranks[source] * weight / out[source] for source, to, weight in edges if to == name)
            + (1 - damping) * matching[name]
            for name in ranks
        }
    return ranks


@pytest.mark.parametrize(("damping", "iterations"), [(0.85, 10), (0.5, 20)])
def test_the_ranks_are_those_of_the_document(damping: float, iterations: int):
    chance = random.Random(3)
    words = [f"keyword{place}" for place in range(25)]
    turns = [
        memory(f"m{place:02}", " ".join(chance.sample(words, 5)), day=1 + place // 10, session_id=f"s{place // 5}")
        for place in range(40)
    ]
    expected = as_written(turns, "keyword3 keyword7", damping, iterations)
    graph = ConversationRank.build(turns)
    found = graph.ranks("keyword3 keyword7", 40, damping=damping, iterations=iterations)
    assert {one.id: one.rank for one in found} == pytest.approx(
        {name: rank for name, rank in expected.items() if rank > 0}
    )
    assert [one.rank for one in found] == sorted((one.rank for one in found), reverse=True)
    assert graph.ranks("keyword3 keyword7", 3, damping=damping, iterations=iterations) == found[:3]


def test_a_turn_that_shares_no_word_with_the_query_is_reached_by_each_kind_of_edge():
    turns = [
        memory("asked", "Where is the blue compass?", 1, session_id="s1"),
        memory("answer", "Under that flower pot.", 1, session_id="s1"),
        memory("named", "Nothing to see.", 2),
        memory("naming", "The compass: see [[named]].", 3),
        memory("alike", "The flower beside the pot of Under."),
        memory("other", "It rained."),
    ]
    found = {one.id for one in ConversationRank.build(turns).ranks("my compass", 10)}
    assert found == {"asked", "answer", "naming", "named"}
    topic = [memory("one", "compass garden shed"), memory("two", "garden shed door", 2)]
    assert {one.id for one in ConversationRank.build(topic).ranks("compass", 10)} == {"one", "two"}


def test_turns_are_in_order_of_time_whatever_their_order_in_the_file():
    turns = [
        memory("late", "garden shed", 3),
        memory("early", "garden shed compass", 1),
        memory("undated", "it", None),
    ]
    graph = ConversationRank.build(turns)
    assert list(graph.ids) == ["early", "undated", "late"]
    assert [one.id for one in graph.ranks("compass", 10)] == ["early", "late"], (
        "edges go from earlier to later turns"
    )


def test_a_query_without_a_keyword_in_any_turn_and_no_turns_at_all_give_nothing():
    assert ConversationRank.build([memory("one", "garden shed")]).ranks("what was it?", 5) == []
    assert ConversationRank.build([]).ranks("garden", 5) == []
