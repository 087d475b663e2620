"""Recall and MRR of several profiles or baselines as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orion_recall.cli.output import Table, counted, table
from orion_recall.evaluation.figures import Figures
from orion_recall.evaluation.score import Difference


def figures_table(figures: Sequence[Figures], against: str, *, title: str, further: Sequence[str] = ()) -> Table:
    """A row each: recall and MRR above their 95 percent intervals, and what recall gains over `against`.

    `further` are measures that are shown as well.
    """
    recalls = [name for name in figures[0].scores.means if name.startswith("recall@")]
    measures = list(dict.fromkeys([*recalls, "mrr", *further]))
    rows = [
        (
            one.name,
            *(_mean(one, name) for name in measures),
            *("" if one.name == against else _difference(one.against, name) for name in recalls),
        )
        for one in figures
    ]
    columns = (counted(figures[0].scores.queries, "query"), *measures, *(f"{name} - {against}" for name in recalls))
    return table(columns, rows, title=title)


def _mean(one: Figures, name: str) -> str:
    mean = one.scores.means[name]
    return f"{mean.mean:.4f}\n{mean.low:.3f}..{mean.high:.3f}"


def _difference(against: Mapping[str, Difference], name: str) -> str:
    found = against[name].difference
    return f"{found.mean:+.4f}\n{found.low:+.3f}..{found.high:+.3f}"
