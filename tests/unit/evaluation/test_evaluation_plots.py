from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.evaluation.figures import Figures
from orion_recall.evaluation.plots import check_can_plot, plot_ablation, plot_latency, plot_scores
from orion_recall.evaluation.score import Mean, Scores


def scores(at_5: float) -> Scores:
    values = {"recall@5": at_5, "recall@10": at_5 + 0.1, "recall@bundle": 0.3, "mrr": 0.5}
    return Scores(
        queries=9, means={name: Mean(mean=one, low=one - 0.05, high=one + 0.05) for name, one in values.items()}
    )


def is_a_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_every_picture_is_made_without_a_screen(tmp_path: Path) -> None:
    by_k, ablation, latency = (tmp_path / name for name in ("k.png", "ablation.png", "latency.png"))
    plot_scores(by_k, scores(0.6), {"fact": scores(0.7), "time": scores(0.5)}, "a run")
    figures = [
        Figures(name=name, scores=scores(0.6), against={}) for name in ("whole", "without x", "baseline like")
    ]
    plot_ablation(ablation, figures, "recall@5", "what it is made of")
    plot_latency(latency, {"search": {"p50": 3.0, "p95": 9.0}, "rank": {"p50": 1.0, "p95": 2.0}}, "by stage")
    assert all(is_a_picture(path) for path in (by_k, ablation, latency))
    assert "matplotlib.pyplot" not in sys.modules


def test_what_cannot_be_drawn_is_told_before_the_work(tmp_path: Path) -> None:
    check_can_plot(None)
    check_can_plot(tmp_path / "fine.png")
    with pytest.raises(SettingsError, match=r"no \.png file"):
        check_can_plot(tmp_path / "x.svg")
    with pytest.raises(SettingsError, match="is no folder"):
        check_can_plot(tmp_path / "nowhere" / "x.png")


def test_without_matplotlib_the_line_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'orion-recall\[plot\]'"):
        check_can_plot(tmp_path / "x.png")
