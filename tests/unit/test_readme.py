"""The README is short, and names what a newcomer and CI need."""

from __future__ import annotations

import re

from docs.tools.page import ROOT, read_page

README = read_page(ROOT / "README.md")


def test_it_is_short() -> None:
    assert len(README.text.splitlines()) <= 200


def test_it_names_every_target_that_ci_may_run() -> None:
    for target in ("check", "demo", "test", "test-slow", "test-all", "test-models", "docs", "bench"):
        assert re.search(rf"\bmake {target}\b(?!-)", README.text), target


def test_ci_runs_nothing_that_it_does_not_name() -> None:
    targets = re.findall(r"^make ([a-z-]+)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    assert targets
    for target in targets:
        assert f"make {target}" in README.text, target


def test_it_begins_with_a_sentence_a_picture_and_two_commands() -> None:
    first, second = [block for block in README.blocks if block.language == "sh"][:2]
    assert re.findall(r"^make ([a-z-]+)", first.text, re.MULTILINE) == ["demo", "test"]
    assert "orion-recall up" in second.text
    assert next(README.links).endswith(".svg")
