from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.evaluation.figures import Figures
from orion_recall.evaluation.plots import Scored, check_can_plot, plot_ablation, plot_latency, plot_scores
from orion_recall.evaluation.score import Difference, Mean, Scores


def scores(at_5: float) -> Scores:
    values = {"recall@5": at_5, "recall@10": at_5 + 0.1, "recall@bundle": 0.3, "mrr": 0.5}
    return Scores(
        queries=9, means={name: Mean(mean=one, low=one - 0.05, high=one + 0.05) for name, one in values.items()}
    )


def scored(name: str, at_5: float) -> Scored:
    return Scored(name=name, overall=scores(at_5), by_category={"fact": scores(at_5 + 0.1), "time": scores(0.5)})


def figures(name: str, at_5: float, whole: float) -> Figures:
    change = Mean(mean=at_5 - whole, low=at_5 - whole - 0.02, high=at_5 - whole + 0.02)
    between = Difference(a=whole, b=at_5, difference=change, p=0.5, wins=1, ties=0, losses=1)
    return Figures(name=name, scores=scores(at_5), against={"recall@5": between})


def is_a_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and 3000 < path.stat().st_size < 60_000


def test_every_picture_is_made_without_a_screen(tmp_path: Path) -> None:
    by_k, ablation, latency = (tmp_path / name for name in ("k.png", "ablation.png", "latency.png"))
    plot_scores(by_k, [scored(f"run {number}", 0.6 - number / 20) for number in range(9)], "nine runs")
    made = [figures(name, at_5, 0.6) for name, at_5 in (("whole", 0.6), ("without x", 0.5), ("baseline like", 0.3))]
    plot_ablation(ablation, made, "recall@5", "what it is made of")
    plot_latency(latency, {"search": {"p50": 3.0, "p95": 9.0}, "rank": {"p50": 1.0, "p95": 2.0}}, "by stage")
    assert all(is_a_picture(path) for path in (by_k, ablation, latency))
    assert "matplotlib.pyplot" not in sys.modules


def test_one_run_alone_is_drawn_as_well_and_one_depth_is_enough(tmp_path: Path) -> None:
    alone = scored("alone", 0.4)
    means = {"recall@10": alone.overall.means["recall@10"]}
    at_10 = Scores(queries=9, means=means)
    plot_scores(tmp_path / "a.png", [alone], "alone")
    plot_scores(tmp_path / "b.png", [Scored(name="b", overall=at_10, by_category={"fact": at_10})], "at 10")
    assert all(is_a_picture(tmp_path / name) for name in ("a.png", "b.png"))


def test_what_cannot_be_drawn_is_told_before_the_work(tmp_path: Path) -> None:
    check_can_plot(None)
    check_can_plot(tmp_path / "fine.png")
    with pytest.raises(SettingsError, match=r"does not end in \.png"):
        check_can_plot(tmp_path / "x.svg")
    with pytest.raises(SettingsError, match="does not exist"):
        check_can_plot(tmp_path / "nowhere" / "x.png")


def test_without_matplotlib_the_line_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'orion-recall\[plot\]'"):
        check_can_plot(tmp_path / "x.png")
