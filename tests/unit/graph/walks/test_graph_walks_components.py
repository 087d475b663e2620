from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orion_recall.graph.exchange.csv_files import Components

EDGES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=20)


def grown(edges: list[tuple[str, str]]) -> Components:
    made = Components()
    made.add(edges)
    return made


def reached(edges: list[tuple[str, str]], start: str) -> set[str]:
    """By walking, step by step."""
    found = {start}
    while more := {end for edge in edges if found & set(edge) for end in edge} - found:
        found |= more
    return found


@given(EDGES)
def test_components_are_what_can_be_walked_to(edges: list[tuple[str, str]]):
    made = grown(edges)
    entities = {end for edge in edges for end in edge}
    components = {frozenset(reached(edges, one)) for one in entities}
    assert made.sizes() == sorted(map(len, components), reverse=True)
