"""Prompt text, and scopes of memories."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from orion_recall.contracts import BundleStats, MemoryBundleV1
from orion_recall.interfaces import in_scope
from orion_recall.prompt import NOTHING_FOUND, add_filter, memory_context
from orion_recall.values import MemoryView, Scope
from tests.samples.source_samples import NOW

SPECIFIED = '{{ memory_bundle.rendered | default("No additional memory context provided.") }}'
DOCUMENTED = '{{ memory_bundle.rendered | default("No additional memory context provided.", true) }}'


def bundle(rendered: str) -> MemoryBundleV1:
    return MemoryBundleV1(
        rendered=rendered, items=[], stats=BundleStats(backend_counts={}, latency_ms=1.0, profile="p")
    )


def test_a_bundle_becomes_its_bullets() -> None:
    assert memory_context(bundle("- [undated vector m1] tea")) == "- [undated vector m1] tea"
    assert memory_context({"rendered": "- x"}) == "- x"


@pytest.mark.parametrize("template", [DOCUMENTED, "{{ memory_bundle | memory_context }}"])
def test_both_ways_of_writing_it_in_a_template_agree(template: str) -> None:
    environment = Environment(autoescape=True)
    add_filter(environment)
    compiled = environment.from_string(template)
    assert compiled.render(memory_bundle=bundle("- tea")) == "- tea"
    assert compiled.render(memory_bundle=bundle("")) == NOTHING_FOUND


def test_the_specified_line_of_a_prompt_works_as_it_stands() -> None:
    """Without a bundle it says so. With one it prints `rendered`, which is never null, and "" for nothing found."""
    compiled = Environment(autoescape=False).from_string(SPECIFIED)
    assert compiled.render(memory_bundle={}) == compiled.render(memory_bundle=None) == NOTHING_FOUND
    assert (
        compiled.render(memory_bundle=bundle("- [2026-03-01 vector m1] Ana: tea"))
        == "- [2026-03-01 vector m1] Ana: tea"
    )
    assert compiled.render(memory_bundle={"rendered": "- x", "items": []}) == "- x"
    assert compiled.render(memory_bundle=bundle("")) == ""


SAID = MemoryView(
    id="a", text="", text_hash="", session_id="s", user_id="u", agent_id="a", run_id="r",
    kind="plan", tags=("harbour", "crane"), ts=NOW
)  # fmt: skip

PARTS: list[tuple[dict[str, Any], bool]] = [
    ({}, True), ({"session_id": "s"}, True), ({"session_id": "other"}, False),
    ({"user_id": "u"}, True), ({"user_id": "other"}, False),
    ({"agent_id": "a"}, True), ({"agent_id": "other"}, False),
    ({"run_id": "r"}, True), ({"run_id": "other"}, False),
    ({"kinds": ("plan", "task")}, True), ({"kinds": ("task",)}, False),
    ({"tags": ("boat", "crane")}, True), ({"tags": ("boat",)}, False),
    ({"since": NOW}, True), ({"since": NOW + 1}, False), ({"until": NOW + 1}, True), ({"until": NOW}, False),
    ({"as_of": NOW}, True), ({"as_of": NOW - 1}, False), ({"since": NOW - 1, "until": NOW + 1}, True),
    ({"session_id": "s", "kinds": ("task",)}, False),
]  # fmt: skip


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
