from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.memory.names.similar import guard
from orion_recall.memory.record.aliases import NameKind


@pytest.mark.parametrize(
    ("one", "other", "kind", "why"),
    [
        ("Pier 7", "Pier 8", "entity", "number"),
        ("Pier 7", "Pier", "entity", "number"),
        ("Phase One", "Phase Two", "entity", "number"),
        ("Henry IV", "Henry VI", "entity", "number"),
        ("Elizabeth I", "Elizabeth", "entity", "number"),
        ("Vi Larsen", "Liv Larsen", "entity", None),
        ("Robert I. Miles", "Robert Ian Miles", "entity", None),
        ("Room 101", "room 101", "entity", None),
        ("Mr. Miles", "Mrs. Miles", "entity", "title"),
        ("Lord Hale", "Lady Hale", "entity", "title"),
        ("Dr. Hale", "Mrs. Hale", "entity", None),
        ("Fjord Labs", "Fjord Lab", "entity", None),
        ("founded", "founded by", "relation", "direction"),
        ("moved to", "moved from", "relation", "direction"),
        ("works at", "worked at", "relation", "tense"),
        ("is friends with", "was friends with", "relation", "tense"),
        ("likes", "dislikes", "relation", "opposite"),
        ("does work at", "does not work at", "relation", "opposite"),
        ("is friends with", "friends with", "relation", None),
        ("reports to", "report to", "relation", None),
    ],
)
def test_what_speaks_against_two_names_being_one(one: str, other: str, kind: NameKind, why: str | None) -> None:
    assert guard(one, other, kind) == guard(other, one, kind) == why


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(["entity", "relation"]))
def test_a_guard_is_the_same_both_ways_and_never_against_a_name_itself(
    one: str, other: str, kind: NameKind
) -> None:
    assert guard(one, other, kind) == guard(other, one, kind)
    assert guard(one, one, kind) in (None, "title")
