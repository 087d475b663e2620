"""The prompt helper says so when nothing was found."""

from __future__ import annotations

import pytest
from jinja2 import Environment

from orion_recall.contracts import BundleStats, MemoryBundleV1
from orion_recall.prompt import NOTHING_FOUND, add_filter, memory_context

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
