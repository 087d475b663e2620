"""The reliability plot: how often there was an answer, by the probability that was told. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from orion_recall.evaluation.answers.reliability import Reliability
from orion_recall.evaluation.plots import Axes, draw_to

_SHADES = ("#16416f", "#9c4a1a", "#222222", "#6f9fcb", "#777777")
_MARKERS = "osD^vPX"
_LEAST_QUERIES = 3


def plot_reliability(out: Path, found: Sequence[Reliability]) -> None:
    """The curve of each: the share answerable of the queries in each tenth of probability; and the AUCs."""

    def draw(axes: Sequence[Axes]) -> None:
        left, right = axes
        left.plot([0, 1], [0, 1], color="#c9c9c9", lw=1)
        for one, shade, marker in zip(found, cycle(_SHADES), cycle(_MARKERS), strict=False):
            bins = [part for part in one.bins if part.count >= _LEAST_QUERIES]
            left.plot([part.told for part in bins], [part.answerable for part in bins], color=shade, marker=marker)
            told = [(at.answerable, at.unanswerable) for at in (*one.silenced, one.at_most)]
            told.sort()
            label = one.name if one.auc is None else f"{one.name}, AUC {one.auc:.3f}"
            right.plot([x for x, _ in told], [y for _, y in told], color=shade, marker=marker, label=label)
        left.set_xlabel("probability that anything answers")
        left.set_ylabel("share that has an answer")
        right.set_xlabel("answerable queries silenced")
        right.set_ylabel("others silenced")
        right.legend(fontsize="small")
        for one in axes:
            one.set_ylim(-0.02, 1.02)
            one.grid(color="#dddddd")

    draw_to(out, draw, columns=2, height=4.4, title="Whether anything answers")
