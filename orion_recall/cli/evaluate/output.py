"""Output of `orion-recall eval`: progress, runs, scores, comparisons."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from orion_recall.cli.output import console, counted, note, notes, prose, table, visible
from orion_recall.evaluation.measures import Measured
from orion_recall.evaluation.plan import Plan, RunSummary
from orion_recall.evaluation.score import Changed, Difference, Mean, Scores

_PERCENTILES = ("p50", "p95", "p99")


class RunBars:
    """A run's progress as bars, one for each part of it."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begins(self, what: str, total: int) -> None:
        """Another part of it; the one before is done."""
        if self._task is not None:
            self._bars.update(self._task, visible=False)
        self._task = self._bars.add_task(what, total=total)

    def advanced(self, done: int) -> None:
        """So much of the part is done."""
        if self._task is not None:
            self._bars.update(self._task, completed=done)


@contextlib.contextmanager
def progress_bars() -> Generator[Progress]:
    """Bars on standard error, on a terminal only."""
    shown = notes()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bars:
        yield bars


def show_comparison(between: Mapping[str, Difference], changed: Sequence[Changed], title: str, by: str) -> None:
    """Measure by measure, then the queries that changed most."""
    rows = [
        (
            name,
            _short(one.a),
            _short(one.b),
            f"{one.difference.mean:+.4f}",
            f"{one.difference.low:+.4f} to {one.difference.high:+.4f}",
            f"{one.p:.4f}",
            one.wins,
            one.ties,
            one.losses,
        )
        for name, one in between.items()
    ]
    columns = ("measure", "A", "B", "B - A", "95% interval", "p", "B wins", "ties", "B loses")
    console().print(table(columns, rows, title=visible(title)))
    if changed:
        shown = [
            (one.query.id, one.query.category, _short(one.a), _short(one.b), one.query.text[:80]) for one in changed
        ]
        console().print(table(("query_id", "category", "A", "B", "query"), shown, title=f"\nMost changed by {by}"))


def run_as_json(summary: RunSummary) -> dict[str, Any]:
    """A run as one JSON object."""
    silent = {name: {"times": times, "error": error} for name, (times, error) in summary.silent.items()}
    return {**asdict(summary), "silent": silent}


def show_run(out: Path, plan: Plan, summary: RunSummary) -> None:
    """Prints a run: its size, where the time went, and what failed."""
    seconds = ", ".join(f"{what} {took:.1f} s" for what, took in summary.seconds.items())
    told = [
        f"{out}: {counted(summary.queries, 'query')} under {summary.profile}, "
        f"{counted(summary.memories, 'memory')} in {counted(summary.conversations, 'conversation')}",
        f"{seconds}; a query took {summary.query_ms['p50']:.1f} ms (p95 {summary.query_ms['p95']:.1f})",
    ]
    if summary.from_cache and plan.cache is not None:
        told.append(f"index and graph were built by an earlier run (cache {plan.cache.folder})")
    elif plan.cache is not None:
        told.append(
            f"index and graph are kept in {plan.cache.folder}; document vectors: {summary.vectors_embedded} "
            f"embedded, {summary.vectors_from_cache} kept from before"
        )
    if plan.profile.enable_sql_timeline and not summary.timeline:
        told.append("the timeline source was off (no ORION_POSTGRES_DSN)")
    for line in told:
        prose(visible(line))
    times = {"all": summary.query_ms, **{f"source {name}": ms for name, ms in summary.source_ms.items()}}
    rows = [(name, *(f"{ms[share]:.2f}" for share in _PERCENTILES)) for name, ms in times.items()]
    console().print(table(("ms a query", "P50", "P95", "P99"), rows))
    if summary.evidence_unknown:
        note(f"{counted(summary.evidence_unknown, 'evidence id')} without a memory: they cannot be found")
    if summary.late_off is not None:
        prose(visible(f"no late interaction: {summary.late_off}"), to=notes())
    for source, (times, error) in summary.silent.items():
        prose(visible(f"{source} did not answer {counted(times, 'time')}: {error}"), to=notes())


def show_scores(measured: Measured, overall: Scores, by_category: Mapping[str, Scores]) -> None:
    """A row a measure: over all queries with its interval, then by category."""
    rows: list[Sequence[object]] = [
        (name, _short(mean.mean), _interval(mean), *(_short(of.means[name].mean) for of in by_category.values()))
        for name, mean in overall.means.items()
    ]
    columns = (
        "measure",
        f"all ({overall.queries})",
        "95% interval",
        *(f"{category} ({scores.queries})" for category, scores in by_category.items()),
    )
    console().print(table(columns, rows))
    if measured.missing:
        note(
            f"{counted(measured.missing, 'query')} of {overall.queries} without a line in the run, counted as 0 "
            "(--only-answered leaves them out)"
        )


def _interval(mean: Mean) -> str:
    return f"{mean.low:.4f} to {mean.high:.4f}"


def _short(value: float) -> str:
    return f"{value:.4f}"
