"""Each kind of edge; and topics from postings are those of the comparison of all pairs."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from orion_recall.graph.conversation import (
    Edges,
    Turn,
    next_pairs,
    postings_of,
    reference_pairs,
    topic_edges,
)


def turn(text: str, order: float | None = None, speaker: str | None = None, **fields: Any) -> Turn:
    return Turn.of(text, order=order, speaker=speaker, **fields)


def references(*turns: Turn) -> list[tuple[int, int]]:
    return reference_pairs(turns, postings_of(turns))


def as_dict(edges: Edges) -> dict[tuple[int, int], float]:
    pairs = zip(edges.source.tolist(), edges.target.tolist(), strict=True)
    return dict(zip(pairs, edges.weight.tolist(), strict=True))


def test_the_next_turn_is_the_next_of_the_same_session():
    turns = [turn("a", session="s1"), turn("b", session="s2"), turn("c"), turn("d", session="s1"), turn("e")]
    assert next_pairs(turns) == [(0, 3)]


def test_a_topic_is_two_shared_keywords_and_weighs_their_share_of_the_larger_set():
    turns = [
        turn("boiler kitchen leaks"),
        turn("boiler kitchen plumber quote"),
        turn("boiler garden"),
        turn("kitchen boiler leaks"),
    ]
    assert as_dict(topic_edges(turns, postings_of(turns))) == {(0, 1): 2 / 4, (0, 3): 1.0, (1, 3): 2 / 4}


def test_topics_from_postings_are_those_of_the_comparison_of_all_pairs():
    chance = random.Random(7)
    words = [f"keyword{place}" for place in range(30)]
    turns = [turn(" ".join(chance.sample(words, chance.randint(0, 8)))) for _ in range(120)]
    expected = {
        (one, other): len(shared) / max(len(turns[one].keywords), len(turns[other].keywords))
        for one in range(len(turns))
        for other in range(one + 1, len(turns))
        if len(shared := turns[one].keywords & turns[other].keywords) >= 2
    }
    found = as_dict(topic_edges(turns, postings_of(turns)))
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair]) for pair in expected)


def test_bounded_topics_of_ten_times_the_turns_take_in_proportion_to_them():
    def edges(count: int) -> tuple[int, float]:
        turns = [
            turn(f"alpha common word{place % (count // 10)} term{place % (count // 10)}") for place in range(count)
        ]
        began = time.process_time()
        found = topic_edges(turns, postings_of(turns), most_turns=50)
        return len(found.source), time.process_time() - began

    few, many = edges(500), edges(5_000)
    assert many[0] == 10 * few[0] == 10 * 500 * 9 // 2
    assert many[1] < 40 * few[1] + 1.0, "a comparison of all pairs would take a hundred times as long"


def test_words_that_refer_back_mean_the_earlier_turn_with_most_shared_keywords():
    turns = [
        turn("The boiler leaks.", 1, "Ana"),
        turn("The boiler leaks in the kitchen.", 2, "Bo"),
        turn("As we discussed, the kitchen boiler must go.", 3, "Ana"),
        turn("The kitchen boiler must go.", 4, "Bo"),
    ]
    assert references(*turns) == [(2, 1)]
    assert references(*turns[2:]) == [], "what comes later is not meant"


@pytest.mark.parametrize(("text", "meant"), [("Like you said, the boiler.", 1), ("As I said, the boiler.", 0)])
def test_you_said_means_another_speaker_and_i_said_the_same(text: str, meant: int):
    turns = [turn("The boiler.", 1, "Ana"), turn("The boiler.", 2, "Bo"), turn(text, 3, "Ana")]
    assert references(*turns) == [(2, meant)]


def test_a_time_in_the_reference_chooses_the_turn_of_that_time():
    week, now = 7.0, 20.0
    turns = [
        turn("The boiler.", now - 10),
        turn("The boiler.", now - 1),
        turn("Like you said last week, the boiler.", now, about=((now - 2 * week, now - week),)),
    ]
    assert references(*turns) == [(2, 0)]
    assert references(*turns[1:]) == [(1, 0)], "where nothing is of that time, any earlier turn may be meant"


def test_a_quotation_leads_to_the_turns_that_have_its_words_in_their_order():
    turns = [
        turn("She wrote: “keep the blue key in the drawer”.", 9),
        turn("Please keep the blue key, in the Drawer!"),
        turn("In the drawer keep the key, the blue one."),
    ]
    assert references(*turns) == [(0, 1)]
