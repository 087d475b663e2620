"""What deploy/THREATS.md points to is there."""

from __future__ import annotations

import re

from docs.tools.page import ROOT


def test_every_defence_names_a_test_that_there_is() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "deploy/THREATS.md").read_text("utf-8")))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - there == set()
