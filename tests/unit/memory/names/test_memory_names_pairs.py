from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.memory.names import similar as name_pairs
from orion_recall.memory.names.similar import similar_pairs, string_similarity

NAMES = st.lists(st.text("abor é-.1", min_size=1, max_size=8), min_size=1, max_size=3).map(" ".join)


@pytest.mark.parametrize(
    ("one", "other", "at_least"),
    [
        ("Robert Miles", "R. Miles", 0.95),
        ("Robert J. Miles", "R. J. Miles", 0.95),
        ("Robert Miles", "Miles, Robert", 1.0),
        ("Dr. Ana Silva", "Ana Silva", 1.0),
        ("Fjord Labs", "Fjord-Labs", 1.0),
        ("National Aeronautics Space Administration", "NASA", 0.9),
        ("Katherine Jones", "Catherine Jones", 0.9),
        ("Jon Smith", "John Smith", 0.9),
    ],
)
def test_names_are_alike_in_spelling(one: str, other: str, at_least: float) -> None:
    assert string_similarity(one, other) == string_similarity(other, one) >= at_least
    assert list(similar_pairs([one, other], "entity", 0.85)) == [tuple(sorted((one.casefold(), other.casefold())))]


@given(NAMES, NAMES)
def test_similarity_is_the_same_both_ways_and_between_nothing_and_one(one: str, other: str) -> None:
    assert string_similarity(one, other) == string_similarity(other, one)
    assert 0.0 <= string_similarity(one, other) <= 1.0
    assert string_similarity(one, one) == 1.0


@given(st.lists(NAMES, max_size=12))
def test_pairs_do_not_depend_on_the_order_and_are_as_similar_as_they_say(labels: list[str]) -> None:
    found = similar_pairs(labels, "entity", 0.7)
    assert found == similar_pairs(labels[::-1], "entity", 0.7)
    for (one, other), score in found.items():
        assert one < other
        assert score == string_similarity(one, other) >= 0.7


def test_the_work_grows_with_the_names_and_not_with_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [f"ana {number:04d}x" for number in range(1500)]
    compared = 0
    real = name_pairs._similarity  # pyright: ignore[reportPrivateUsage]

    def counted(*arguments: object) -> float:
        nonlocal compared
        compared += 1
        return real(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(name_pairs, "_similarity", counted)
    similar_pairs(labels, "entity", 0.85)
    assert compared < 40 * len(labels) < len(list(combinations(range(len(labels)), 2)))
