"""Figures as PNG pictures: recall by depth and category, ablations, latency by stage. By matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.figures import Figures
from orion_recall.evaluation.score import Scores

Axes = Any  # matplotlib's own type, whose methods are typed in part only
_INCHES_A_BAR = 0.26
_COLOUR, _BASELINE, _WHOLE = "#4472a8", "#9a9a9a", "#c0504d"


def check_can_plot(out: Path | None) -> None:
    """SettingsError when a picture is wanted and cannot be made: before the work, not after it."""
    if out is None:
        return
    if out.suffix != ".png":
        raise SettingsError(f"--plot: {out} is no .png file")
    if not out.parent.is_dir():
        raise SettingsError(f"--plot: {out.parent} is no folder: make it first")
    _matplotlib()


def plot_scores(out: Path, overall: Scores, by_category: Mapping[str, Scores], title: str) -> None:
    """Recall by depth beside recall by category at the first depth, with intervals."""
    depths = [name for name in overall.means if name.startswith("recall@") and name[7:].isdigit()]

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        for name, scores in {"all": overall, **by_category}.items():
            numbers = [int(depth[7:]) for depth in depths]
            means = [scores.means[depth].mean for depth in depths]
            left.plot(numbers, means, marker="o", label=f"{name} ({scores.queries})", lw=3 if name == "all" else 1)
        left.set_xticks([int(depth[7:]) for depth in depths])
        left.set_xlabel("k")
        left.set_ylabel("recall@k")
        left.set_ylim(0, 1)
        left.legend(fontsize="small")
        rows = [(name, scores.means[depths[0]]) for name, scores in {**by_category, "all": overall}.items()]
        _bars(right, [(name, one.mean, one.low, one.high, _COLOUR) for name, one in rows], depths[0])
        right.set_xlim(0, 1)

    _drawn(out, draw, columns=2, height=4.0, title=title)


def plot_ablation(out: Path, figures: Sequence[Figures], measure: str, title: str) -> None:
    """A bar for every ablation, with its interval; the first is the whole profile."""

    def draw(axes: Sequence[Axes]) -> None:
        rows: list[tuple[str, float, float, float, str]] = []
        for place, one in reversed(list(enumerate(figures))):
            mean = one.scores.means[measure]
            colour = _WHOLE if place == 0 else _BASELINE if one.name.startswith("baseline") else _COLOUR
            rows.append((one.name, mean.mean, mean.low, mean.high, colour))
        _bars(axes[0], rows, measure)
        axes[0].axvline(figures[0].scores.means[measure].mean, color=_WHOLE, lw=0.8, ls="--")

    _drawn(out, draw, columns=1, height=1.2 + _INCHES_A_BAR * len(figures), title=title)


def plot_latency(out: Path, stage_ms: Mapping[str, Mapping[str, float]], title: str) -> None:
    """The milliseconds of every stage: the median, and how far the slowest twentieth begins beyond it."""

    def draw(axes: Sequence[Axes]) -> None:
        rows = [(stage, of["p50"], of["p50"], of["p95"], _COLOUR) for stage, of in reversed(list(stage_ms.items()))]
        _bars(axes[0], rows, "ms (median, up to p95)")

    _drawn(out, draw, columns=1, height=1.2 + _INCHES_A_BAR * 2 * len(stage_ms), title=title)


def _bars(axes: Axes, rows: Sequence[tuple[str, float, float, float, str]], label: str) -> None:
    """Bars from left to right, each named, with its value and what lies between low and high."""
    for place, (_, value, low, high, colour) in enumerate(rows):
        axes.barh(place, value, color=colour)
        axes.hlines(place, low, high, color="black", lw=1)
        axes.text(high, place, f" {value:.3g}", va="center", fontsize="small")
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows], fontsize="small")
    axes.set_xlabel(label)
    axes.margins(x=0.12)


def _drawn(out: Path, draw: Callable[[Sequence[Axes]], None], *, columns: int, height: float, title: str) -> None:
    figure_class = _matplotlib()
    # A figure of its own, without the library's global state: it needs no screen, and nothing stays behind.
    figure = figure_class(figsize=(6.0 * columns + 1.0, height), layout="constrained")
    draw([figure.add_subplot(1, columns, place + 1) for place in range(columns)])
    figure.suptitle(title, fontsize="medium")
    try:
        figure.savefig(out, dpi=120)
    except OSError as error:
        raise EvaluationError(f"{out}: {error.strerror or type(error).__name__}") from error


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError("--plot needs matplotlib: pip install 'orion-recall[plot]'") from error
    return Figure
