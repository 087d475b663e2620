"""What `orion-recall decisions replay` prints: both comparisons, measure by measure, and what changed most."""

from __future__ import annotations

from orion_recall.cli.output import Table, console, counted, note, table, visible
from orion_recall.evaluation.decision_replay.gate import Verdict
from orion_recall.evaluation.decision_replay.plan import ReplayPlan
from orion_recall.evaluation.decision_replay.reports import CHANGED_IS_NOT_WORSE, groups_of
from orion_recall.evaluation.decision_replay.run import ReplayRun
from orion_recall.evaluation.decision_replay.summary import Compared, Summary
from orion_recall.evaluation.score import Mean

_ID_CHARS, _QUERY_CHARS = 8, 60
# With a lower share of logged answers that come again, something else than the profile has changed a good deal.
_TRUSTED = 0.95


def show_replay(
    run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, show: int, redact: bool
) -> None:
    """The replay as tables, and in words what was left out and why."""
    if summary.drift.queries:
        _show_compared(summary.drift, "The logged profile asked again, against the log", with_levels=False)
    if summary.profile is not None and plan.tried is not None:
        name = "the control" if summary.against == "control" else "the log"
        _show_compared(summary.profile, f"{plan.tried.profile} against {name}", with_levels=True)
    _show_groups(summary)
    _show_changed(summary, show, redact=redact)
    for line in _remarks(run, summary):
        note(line)
    if verdict is not None:
        _show_verdict(verdict)


def means_table(compared: Compared, title: str) -> Table:
    """The means of a comparison, measure by measure."""
    rows = [
        (name, f"{one.mean.mean:.4f}", _interval(one.mean), one.queries) for name, one in compared.means.items()
    ]
    return table(("measure", "mean", "95% interval", "queries"), rows, title=visible(title))


def _show_compared(compared: Compared, title: str, *, with_levels: bool) -> None:
    rows = [
        (name, f"{one.mean.mean:.4f}", _interval(one.mean), one.queries) for name, one in compared.means.items()
    ]
    out = console()
    out.print(table(("measure", "mean", "95% interval", "queries"), rows, title=visible(title)))
    if with_levels:
        levels = [
            (
                name,
                f"{one.before:.4g}",
                f"{one.after:.4g}",
                f"{one.difference.mean:+.4g}",
                _interval(one.difference),
            )
            for name, one in compared.levels.items()
        ]
        before, after = compared.p95_ms
        levels.append(("p95_ms", f"{before:.4g}", f"{after:.4g}", f"{after - before:+.4g}", ""))
        out.print(table(("", "before", "after", "difference", "95% interval"), levels))
    if (judged := compared.judged) is not None:
        count = judged.wins + judged.ties + judged.losses
        note(
            f"{title}: of {counted(count, 'query', 'queries')} with feedback {judged.wins} better, "
            f"{judged.losses} worse, {judged.ties} as good (p {judged.p:.3f})"
        )


def _show_groups(summary: Summary) -> None:
    names = [f"overlap@{summary.k}", "same_first", "rbo", "identical", "flip"]
    for what, groups in groups_of(summary).items():
        if len(groups) < 2:
            continue
        rows = [
            (name, one.queries, *(f"{one.means[measure].mean.mean:.3f}" for measure in names))
            for name, one in groups.items()
        ]
        console().print(table((what, "queries", *names), rows, title=f"\nBy {what}"))


def _show_changed(summary: Summary, show: int, *, redact: bool) -> None:
    if not summary.changed or not show:
        return
    rows = [
        (
            one.replayed.logged.id[:_ID_CHARS],
            "" if redact else one.replayed.logged.query.fragment[:_QUERY_CHARS],
            f"{one.pair.change.values['rbo']:.3f}",
            ", ".join(one.pair.change.gained),
            ", ".join(one.pair.change.lost),
            ", ".join(one.pair.change.used_lost),
        )
        for one in summary.changed[:show]
    ]
    title = f"\nThe most changed of {counted(len(summary.changed), 'changed query', 'changed queries')}"
    console().print(table(("decision", "query", "rbo", "gained", "lost", "used and lost"), rows, title=title))


def _remarks(run: ReplayRun, summary: Summary) -> list[str]:
    asked, matching = len(run.queries), run.chosen.matching
    remarks = [f"{counted(asked, 'query', 'queries')} asked again, of {matching} in the log"]
    remarks += [f"{count} set apart: {why}" for why, count in run.chosen.apart.items()]
    remarks += [f"{count} not to be asked again: {why}" for why, count in run.chosen.not_replayable.items()]
    if summary.erased:
        remarks.append(f"{summary.erased} had memories that are erased since, or of another store")
    remarks += [f"{count} times no answer of {source}" for source, count in run.silent.items()]
    remarks += [f"{count} with another answer than the log: {why}" for why, count in summary.why.items()]
    if asked:
        identical = summary.drift.means["identical"].mean.mean
        if identical < _TRUSTED:
            remarks.append(f"the logged profile gives the logged answer for {identical:.0%} only: see why first")
        remarks.append(CHANGED_IS_NOT_WORSE)
    return remarks


def _show_verdict(verdict: Verdict) -> None:
    if verdict.checks:
        rows = [(check.threshold.text, check.words, check.verdict) for check in verdict.checks]
        console().print(table(("threshold", "found", ""), rows, title="\nThe gate"))
    if verdict.cannot_judge is not None:
        note(f"it cannot be judged: {verdict.cannot_judge}")


def _interval(mean: Mean) -> str:
    return f"{mean.low:.4f} to {mean.high:.4f}"
