"""Plots as PNG files: recall by depth and category, ablations, latency by stage. Needs matplotlib, an extra.

Runs differ by markers and shades, so that the plots are readable in grey, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from orion_recall.errors import EvaluationError, SettingsError
from orion_recall.evaluation.figures import Figures
from orion_recall.evaluation.score import Mean, Scores

Axes = Any  # matplotlib's own type, whose methods are typed in part only
_INCHES_A_ROW = 0.27
_FIRST, _SECOND, _OTHER = "#16416f", "#6f9fcb", "#c9c9c9"
_LINES = "#dddddd"
_SHADES = ("#9c4a1a", "#222222", "#555555", "#777777", "#8f8f8f")
_MARKERS, _DASHES = "sD^vPX", ("--", "-.", ":", (0, (1, 1)), (0, (5, 3)))
_LABELS_APART = 0.05
_USUAL = "recall@5"
_COLOURS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The scores of a run, with its name in the plot."""

    name: str
    overall: Scores
    by_category: Mapping[str, Scores]


def check_can_plot(out: Path | None) -> None:
    """SettingsError when the plot cannot be made; called before the work starts."""
    if out is None:
        return
    if out.suffix != ".png":
        raise SettingsError(f"--plot: {out} does not end in .png: name a .png file")
    if not out.parent.is_dir():
        raise SettingsError(f"--plot: the folder {out.parent} does not exist: create it first")
    _matplotlib()


def plot_scores(out: Path, runs: Sequence[Scored], title: str) -> None:
    """Recall by depth, and by category at depth 5 (else the first depth); the first run with its intervals."""
    names = [name for name in runs[0].overall.means if name.startswith("recall@") and name[7:].isdigit()]
    depths, at = [int(name[7:]) for name in names], _USUAL if _USUAL in names else names[0]
    shades, markers = [_FIRST, *islice(cycle(_SHADES), len(runs))], ["o", *islice(cycle(_MARKERS), len(runs))]
    dashes = ["-", *islice(cycle(_DASHES), len(runs))]

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        places = range(len(depths))
        for run, shade, marker, dash in reversed(list(zip(runs, shades, markers, dashes, strict=False))):
            means = [run.overall.means[name] for name in names]
            width = 2.4 if run is runs[0] else 1.4
            left.plot(places, [one.mean for one in means], color=shade, marker=marker, ls=dash, lw=width, ms=6)
            if run is runs[0]:
                low, high = [one.low for one in means], [one.high for one in means]
                left.fill_between(places, low, high, color=shade, alpha=0.15, lw=0)
        _named_at_the_end(left, places[-1], [(run.name, run.overall.means[names[-1]].mean) for run in runs], shades)
        left.set_xticks(places, [str(depth) for depth in depths])
        left.set_xlabel("k")
        left.set_title("recall@k", loc="left")
        left.set_ylim(0, 1)
        left.grid(axis="y", color=_LINES)
        categories = [*runs[0].by_category][::-1]
        for run, shade, marker in reversed(list(zip(runs, shades, markers, strict=False))):
            means = [run.by_category[name].means[at] for name in categories]
            if run is runs[0]:
                _intervals(right, means, shade)
            right.plot([one.mean for one in means], range(len(means)), ls="", color=shade, marker=marker, ms=7)
        told = [f"{name} ({runs[0].by_category[name].queries})" for name in categories]
        right.set_yticks(range(len(categories)), told)
        right.set_ylim(-0.6, len(categories) - 0.4)
        right.set_xlim(0, 1)
        right.set_title(f"{at} by category", loc="left")
        right.grid(axis="x", color=_LINES)

    draw_to(out, draw, columns=2, height=4.4, title=title)


def plot_ablation(out: Path, figures: Sequence[Figures], measure: str, title: str) -> None:
    """The loss of the measure without each source or part, with paired intervals; and single parts and baselines.

    The first of the figures is the whole profile. A hollow dot: the interval includes 0 or a gain.
    """
    whole, *rest = figures
    without = [one for one in rest if one.name.startswith("without ")]
    without.sort(key=lambda one: -one.against[measure].difference.mean)
    others = [whole, *(one for one in rest if not one.name.startswith("without "))]
    others.sort(key=lambda one: one.scores.means[measure].mean)

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        losses = [_negative(one.against[measure].difference) for one in without]
        _intervals(left, losses, _FIRST)
        for place, one in enumerate(losses):
            left.plot(one.mean, place, "o", ms=7, color=_FIRST, mfc=_FIRST if one.low > 0 else "white")
        left.axvline(0, color="black", lw=0.8)
        left.set_yticks(range(len(without)), [one.name.removeprefix("without ") for one in without])
        left.set_title(f"{measure} lost without", loc="left")
        left.grid(axis="x", color=_LINES)
        bars = [(one.name, one.scores.means[measure], _colour(one, whole)) for one in others]
        _bars(right, bars, f"{measure} of", [f"{mean.mean:.3f}" for _, mean, _ in bars])

    draw_to(out, draw, columns=2, height=1.4 + _INCHES_A_ROW * max(len(without), len(others)), title=title)


def plot_latency(out: Path, stage_ms: Mapping[str, Mapping[str, float]], title: str) -> None:
    """The milliseconds of every stage: median and 95th percentile."""

    def draw(axes: Sequence[Axes]) -> None:
        rows = [
            (stage, Mean(mean=of["p50"], low=of["p50"], high=of["p95"]), _SECOND)
            for stage, of in reversed(list(stage_ms.items()))
        ]
        told = [f"{mean.mean:.3g}, {mean.high:.3g}" for _, mean, _ in rows]
        _bars(axes[0], rows, "ms: median, p95", told)

    draw_to(out, draw, columns=1, height=1.4 + _INCHES_A_ROW * len(stage_ms), title=title)


def _negative(difference: Mean) -> Mean:
    return Mean(mean=-difference.mean, low=-difference.high, high=-difference.low)


def _colour(one: Figures, whole: Figures) -> str:
    return _FIRST if one is whole else _OTHER if one.name.startswith("baseline") else _SECOND


def _intervals(axes: Axes, means: Sequence[Mean], colour: str) -> None:
    axes.hlines(range(len(means)), [one.low for one in means], [one.high for one in means], color=colour, lw=2)


def _bars(axes: Axes, rows: Sequence[tuple[str, Mean, str]], title: str, told: Sequence[str]) -> None:
    """Horizontal bars, each with its name, its interval and a text."""
    for place, ((_, value, colour), text) in enumerate(zip(rows, told, strict=True)):
        axes.barh(place, value.mean, color=colour, height=0.75)
        axes.hlines(place, value.low, value.high, color="black", lw=1)
        axes.text(value.high, place, f" {text}", va="center", fontsize="small")
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_title(title, loc="left")
    axes.margins(x=0.08 + 0.012 * max(map(len, told), default=0))  # room for what is told


def _named_at_the_end(axes: Axes, x: float, ends: Sequence[tuple[str, float]], shades: Sequence[str]) -> None:
    """Names beside the ends of lines, moved apart where they would overlap."""
    below = 2.0
    for name, value, shade in sorted(
        [(name, value, shade) for (name, value), shade in zip(ends, shades, strict=False)], key=lambda one: -one[1]
    ):
        below = min(value, below - _LABELS_APART)
        axes.text(x + 0.15, below, name, color=shade, va="center")
    axes.set_xlim(-0.2, x * 1.32 + 0.6)


def draw_to(out: Path, draw: Callable[[Sequence[Axes]], None], *, columns: int, height: float, title: str) -> None:
    """Writes the file that `draw` draws on so many axes in a row; `height` is in inches."""
    figure_class, image = _matplotlib()
    # A figure of its own, without the library's global state: it needs no screen, and nothing stays behind.
    figure = figure_class(figsize=(5.2 * columns + 0.6, height), layout="constrained")
    axes = [figure.add_subplot(1, columns, place + 1) for place in range(columns)]
    draw(axes)
    for one in axes:
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    figure.get_layout_engine().set(h_pad=0.07)
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left")
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    try:
        # A third of the bytes: a picture of lines and letters has few colours.
        image.open(drawn).convert("RGB").quantize(_COLOURS).save(out, optimize=True)
    except OSError as error:
        raise EvaluationError(f"{out}: {error.strerror or type(error).__name__}") from error


def _matplotlib() -> tuple[Any, Any]:
    """matplotlib's Figure class, and Pillow's Image module, which comes with it."""
    try:
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError as error:
        raise SettingsError("--plot needs matplotlib: pip install 'orion-recall[plot]'") from error
    return Figure, Image
