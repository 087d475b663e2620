from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.errors import SourceError
from orion_recall.interfaces import Unavailable, in_scope
from orion_recall.values import MemoryView, Scope
from tests.samples.source_samples import NOW, request

SAID = MemoryView(
    id="a", text="", text_hash="", session_id="s", user_id="u", agent_id="a", run_id="r",
    kind="plan", tags=("harbour", "crane"), ts=NOW
)  # fmt: skip

PARTS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"session_id": "s"}, True),
    ({"session_id": "other"}, False),
    ({"user_id": "u"}, True),
    ({"user_id": "other"}, False),
    ({"agent_id": "a"}, True),
    ({"agent_id": "other"}, False),
    ({"run_id": "r"}, True),
    ({"run_id": "other"}, False),
    ({"kinds": ("plan", "task")}, True),
    ({"kinds": ("task",)}, False),
    ({"tags": ("boat", "crane")}, True),
    ({"tags": ("boat",)}, False),
    ({"since": NOW}, True),
    ({"since": NOW + 1}, False),
    ({"until": NOW + 1}, True),
    ({"until": NOW}, False),
    ({"since": NOW - 1, "until": NOW + 1}, True),
    ({"session_id": "s", "kinds": ("task",)}, False),
]


@pytest.mark.parametrize(("parts", "seen"), PARTS, ids=str)
def test_every_part_of_a_scope_must_hold(parts: dict[str, Any], seen: bool):
    assert in_scope(SAID, Scope(tenant="acme", **parts)) is seen


@given(st.lists(st.sampled_from(PARTS), max_size=3))
def test_narrowing_a_scope_never_shows_more(chosen: list[tuple[dict[str, Any], bool]]):
    merged: dict[str, Any] = {}
    for parts, _ in chosen:
        if merged.keys().isdisjoint(parts):
            was_seen = in_scope(SAID, Scope(tenant="acme", **merged))
            merged |= parts
            assert was_seen or not in_scope(SAID, Scope(tenant="acme", **merged))


async def test_what_stands_in_for_a_source_says_why_it_is_not_there():
    absent = Unavailable("rdf", "the graph is broken: delete it")
    assert absent.name == "rdf"
    with pytest.raises(SourceError, match="the graph is broken: delete it"):
        await absent.search(request("crane"))
