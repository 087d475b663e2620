from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.evaluation.answers.lines import AnswerLine
from orion_recall.evaluation.answers.plot import plot_reliability
from orion_recall.evaluation.answers.reliability import reliability


def test_the_plot_is_a_picture(tmp_path: Path):
    pytest.importorskip("matplotlib")
    lines = [
        AnswerLine(
            query_id=str(number),
            conversation="c",
            is_answerable=number % 3 > 0,
            probability=number / 60,
            signals={},
            is_empty=False,
        )
        for number in range(60)
    ]
    out = tmp_path / "reliability.png"
    plot_reliability(out, [reliability("one", lines), reliability("other", lines[:30])])
    assert out.read_bytes().startswith(b"\x89PNG")
