"""Output of `orion-recall eval`: progress bars, runs, scores, comparisons, figures."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from rich.progress import Progress, TaskID

from orion_recall.cli.output import Table, bars, console, counted, note, prose, table
from orion_recall.decisions.comparison import Mean
from orion_recall.evaluation.everyday import Judgement, by_category, summary
from orion_recall.evaluation.measures import Changed, Difference, Figures, Measured, Scores, WorstQuery
from orion_recall.evaluation.run_stores import Plan, RunSummary


class RunBars:
    """A run's progress as bars, one for each part of it."""

    def __init__(self, shown: Progress) -> None:
        self._bars = shown
        self._task: TaskID | None = None

    def begins(self, what: str, total: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, visible=False)
        self._task = self._bars.add_task(what, total=total)

    def advanced(self, done: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=done)


@contextlib.contextmanager
def progress_bars() -> Generator[RunBars]:
    """Bars on standard error, on a terminal only."""
    with bars() as shown:
        yield RunBars(shown)


def show_run(out: Path, plan: Plan, found: RunSummary) -> None:
    """Prints a run: its size, where the time went, and what failed."""
    seconds = ", ".join(f"{what} {took:.1f} s" for what, took in found.seconds.items())
    lines = [
        f"{out}: {counted(found.queries, 'query')} under {found.profile}, {found.unsure} unsure, "
        f"{counted(found.memories, 'memory')} in {counted(found.conversations, 'conversation')}",
        f"{seconds}; document vectors: {found.vectors_embedded} embedded, {found.vectors_from_cache} cached",
    ]
    if found.source_ms and plan.profile.enable_sql_timeline and not found.timeline:
        lines.append("the timeline source was off (no ORION_POSTGRES_DSN)")
    for line in lines:
        prose(line)
    times = {"all": found.query_ms, **{f"source {name}": ms for name, ms in found.source_ms.items()}}
    rows = [(name, *(f"{ms[share]:.2f}" for share in ("p50", "p95", "p99"))) for name, ms in times.items()]
    console().print(table(("ms a query", "P50", "P95", "P99"), rows))
    if found.evidence_unknown:
        note(f"{counted(found.evidence_unknown, 'evidence id')} without a memory: they cannot be found")
    if found.late_off is not None:
        note(f"no late interaction: {found.late_off}")
    for source, (times_silent, error) in found.silent.items():
        note(f"{source} did not answer {counted(times_silent, 'time')}: {error}")


def show_scores(measured: Measured, overall: Scores, categories: Mapping[str, Scores]) -> None:
    """A row a measure: over all queries with its interval, then by category."""
    rows: list[Sequence[object]] = [
        (name, _short(mean.mean), interval(mean), *(_short(of.means[name].mean) for of in categories.values()))
        for name, mean in overall.means.items()
    ]
    heads = (f"{category} ({scores.queries})" for category, scores in categories.items())
    console().print(table(("measure", f"all ({overall.queries})", "95% interval", *heads), rows))
    if measured.missing:
        note(
            f"{counted(measured.missing, 'query')} of {overall.queries} without a line in the run, counted as 0 "
            "(--only-answered leaves them out)"
        )


def show_everyday(judgements: Sequence[Judgement]) -> None:
    groups = {**by_category(judgements), "all": judgements}
    figures = {name: summary(of) for name, of in groups.items()}
    rows = [
        (name, *("-" if one is None else one if isinstance(one, int) else f"{one:.3f}" for one in found.values()))
        for name, found in figures.items()
    ]
    console().print(table(("category", *figures["all"]), rows, title="\nEveryday pass"))


def show_worst(below: Sequence[WorstQuery], failures: Mapping[str, int], by: str, most: int) -> None:
    """The worst queries with the ranks of their evidence, and how often each type of failure."""
    rows = [
        (
            one.query.id,
            one.query.category,
            _short(one.value),
            one.query.text[:80],
            ", ".join(f"{name} {rank or 'not ranked'}" for name, rank in one.ranks.items()),
            ", ".join(one.failures),
        )
        for one in below[:most]
    ]
    columns = ("query_id", "category", by, "query", "evidence at rank", "failure")
    console().print(table(columns, rows, title=f"\nThe worst of {counted(len(below), 'query')} below 1 in {by}"))
    for name, count in failures.items():
        note(f"{name}: {counted(count, 'query')}")


def show_comparison(between: Mapping[str, Difference], changed: Sequence[Changed], title: str, by: str) -> None:
    rows = [
        (name, _short(one.a), _short(one.b), f"{one.difference.mean:+.4f}", interval(one.difference), _short(one.p),
         one.wins, one.ties, one.losses)
        for name, one in between.items()
    ]  # fmt: skip
    columns = ("measure", "A", "B", "B - A", "95% interval", "p", "B wins", "ties", "B loses")
    console().print(table(columns, rows, title=title))
    if changed:
        shown = [(one.id, one.category, _short(a), _short(b), one.text[:80]) for one, a, b in changed]
        console().print(table(("query_id", "category", "A", "B", "query"), shown, title=f"\nMost changed by {by}"))


def figures_table(figures: Sequence[Figures], against: str, *, title: str, further: Sequence[str] = ()) -> Table:
    """A row each: recall and MRR above their 95 percent intervals, and what recall gains over `against`.

    `further` are measures that are shown as well.
    """
    recalls = [name for name in figures[0].scores.means if name.startswith("recall@")]
    measures = list(dict.fromkeys([*recalls, "mrr", *further]))

    def both(mean: Mean, sign: str) -> str:
        return f"{mean.mean:{sign}.4f}\n{mean.low:{sign}.3f}..{mean.high:{sign}.3f}"

    rows = [
        (
            one.name,
            *(both(one.scores.means[name], "") for name in measures),
            *("" if one.name == against else both(one.against[name].difference, "+") for name in recalls),
        )
        for one in figures
    ]
    columns = (counted(figures[0].scores.queries, "query"), *measures, *(f"{name} - {against}" for name in recalls))
    return table(columns, rows, title=title)


def interval(mean: Mean) -> str:
    return f"{mean.low:.4f} to {mean.high:.4f}"


def _short(value: float) -> str:
    return f"{value:.4f}"
