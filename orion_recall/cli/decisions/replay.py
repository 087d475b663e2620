"""`orion-recall decisions replay` and `compare`: a profile on logged queries, or on those that are served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.addresses import DataFolder, find, open_postgres, with_record
from orion_recall.cli.evaluate.files import CacheFolder, NoCache, cache_of
from orion_recall.cli.evaluate.output import interval, progress_bars
from orion_recall.cli.options import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, NotFound, console, counted, note, print_error, print_json, table
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.cli.signals import interrupted_once
from orion_recall.decisions.comparison import Compared, compared_trials
from orion_recall.errors import OrionError, SettingsError
from orion_recall.evaluation.replay.report import (
    CANNOT_JUDGE,
    CHANGED_IS_NOT_WORSE,
    Gate,
    Summary,
    Verdict,
    compared_json,
    summed_up,
)
from orion_recall.evaluation.replay.report import as_json as report_json
from orion_recall.evaluation.replay.run import AsOf, Choice, ReplayPlan, ReplayRun, replay, why_none
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import QUERY_CLASSES

_ANY = "any"
_ID_CHARS, _QUERY_CHARS = 8, 60
# With a lower share of logged answers that come again, something else than the profile has changed a good deal.
_TRUSTED = 0.95


def replay_decisions(
    profile: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="The profile to try.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    until: Annotated[str | None, typer.Option(help="Only earlier ones.")] = None,
    ids: Annotated[Path | None, typer.Option(metavar="FILE", help="Only these: an id a line.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    query_class: Annotated[str | None, typer.Option("--class", help="Only of this class.")] = None,
    profile_of: Annotated[
        str | None, typer.Option(help="Only under this profile (default: the name of the tried); any: all.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="So many at most, drawn.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    as_of: Annotated[AsOf, typer.Option(help="On the memories of each decision, or those of now.")] = "decision",
    k: Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")] = 5,
    fail_under: Annotated[str | None, typer.Option(metavar="M=X,…", help="Least means: overlap@5=.8")] = None,
    fail_over: Annotated[str | None, typer.Option(metavar="M=+X,…", help="Most increases: p95_ms=+10%")] = None,
    min_queries: Annotated[int | None, typer.Option(min=1, help="With fewer it cannot be judged.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="The 95% interval counts, not the mean.")] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Leave the texts of queries out.")] = False,
    show: Annotated[int, typer.Option(min=0, help="Changed queries to list.")] = 10,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Ask logged queries again, as of then, under another profile: what would have been answered?

    --since, --until, --ids, --tenant, --class and --profile-of choose the queries; --fail-under, --fail-over,
    --min-queries and --strict are the gate. Each query is asked twice on the memories that it was asked on: under
    the profile that answered it (the control, which is also what is done without --profile) and under the tried
    one. Nothing is written but the reports, and sources get all the time they want. It reads with a login such as a
    worker's. Exit codes with a gate: 0 passed, 1 failed, 2 it cannot be judged.

    Example: `orion-recall decisions replay --since 1d --profile mine/reflect.v1.yaml --fail-under overlap@5=.8`
    """
    if query_class is not None and query_class not in QUERY_CLASSES:
        raise SettingsError(f"--class: {query_class!r} is none of {', '.join(QUERY_CLASSES)}")
    log_to_stderr("warning")
    gate = Gate.of(fail_under, fail_over, k, min_queries=min_queries, strict=strict)
    tried = named_profile(profile) if profile is not None else None
    choice = Choice(
        since=moment("--since", since),
        until=moment("--until", until, end=True),
        tenant=tenant,
        query_class=query_class,
        profile=None if profile_of == _ANY else profile_of or (tried.profile if tried is not None else None),
        ids=None if ids is None else _listed_ids(ids),
        sample=sample,
        seed=seed,
    )
    plan = ReplayPlan(choice=choice, tried=tried, as_of=as_of, cache=cache_of(cache, no_cache=no_cache))
    try:
        run = asyncio.run(_replayed(find(data), plan))
    except OrionError as error:
        if gate is None:
            raise
        print_error(type(error).__name__, str(error), as_json=as_json)
        return CANNOT_JUDGE
    if not run.queries and gate is None:
        raise NotFound(why_none(run, choice))
    summary = summed_up(run, k=k)
    verdict = gate.verdict(run, summary, plan) if gate is not None else None
    try:
        if as_json:
            print_json(report_json(run, summary, verdict, plan, redact=redact))
        else:
            _show(run, summary, verdict, plan, show=show, redact=redact)
        sys.stdout.flush()
    except OSError as error:
        if verdict is None:
            raise
        # Nobody can read the verdict: 1 would say that the gate failed.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print_error(type(error).__name__, f"the report cannot be printed: {error.strerror}", as_json=False)
        return CANNOT_JUDGE
    return 0 if verdict is None else verdict.exit_code


async def _replayed(settings: Settings, plan: ReplayPlan) -> ReplayRun:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(interrupted_once())
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings, name="replay"))
        return await replay(pool, settings, plan, stack.enter_context(progress_bars()))


def _listed_ids(file: Path) -> tuple[str, ...]:
    try:
        listed = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--ids: {file} cannot be read: {error}") from error
    return tuple(dict.fromkeys(line.strip() for line in listed if line.strip()))


def _show(
    run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, show: int, redact: bool
) -> None:
    if summary.drift.queries:
        show_compared(summary.drift, "The logged profile asked again, against the log")
    if summary.tried is not None and plan.tried is not None:
        show_compared(summary.tried, f"{plan.tried.profile} against the control")
    if summary.changed and show:
        changed = [
            (
                one.replayed.logged.id[:_ID_CHARS],
                "" if redact else one.replayed.logged.query.fragment[:_QUERY_CHARS],
                f"{one.overlap:.3f}",
                ", ".join(one.pair.gained),
                ", ".join(one.pair.lost),
                ", ".join(name for name in one.pair.lost if name in one.pair.judged.used),
            )
            for one in summary.changed[:show]
        ]
        title = f"\nThe most changed of {counted(len(summary.changed), 'changed query', 'changed queries')}"
        columns = ("decision", "query", "overlap", "gained", "lost", "used and lost")
        console().print(table(columns, changed, title=title))
    for line in _remarks(run, summary):
        note(line)
    if verdict is not None and verdict.checks:
        checks = [(check.threshold.text, check.words, check.verdict) for check in verdict.checks]
        console().print(table(("threshold", "found", ""), checks, title="\nThe gate"))
    if verdict is not None and verdict.cannot_judge is not None:
        note(f"it cannot be judged: {verdict.cannot_judge}")


def _remarks(run: ReplayRun, summary: Summary) -> list[str]:
    asked, matching = len(run.queries), run.matching
    remarks = [f"{counted(asked, 'query', 'queries')} asked again, of {matching} in the log"]
    remarks += [f"{count} set apart: {why}" for why, count in run.apart.items()]
    remarks += [f"{count} not to be asked again: {why}" for why, count in run.not_replayable.items()]
    if summary.erased:
        remarks.append(f"{summary.erased} had memories that are erased since, or of another store")
    remarks += [f"{count} times no answer of {source}" for source, count in run.silent.items()]
    remarks += [f"{count} with another answer than the log: {why}" for why, count in summary.why.items()]
    if asked:
        identical = summary.drift.means["identical"][0].mean
        if identical < _TRUSTED:
            remarks.append(f"the logged profile gives the logged answer for {identical:.0%} only: see why first")
        remarks.append(CHANGED_IS_NOT_WORSE)
    return remarks


def compare_profiles(
    profile: Annotated[str | None, typer.Option(help="Only those tried beside this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later answers: {MOMENT_HELP}")] = None,
    k: Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")] = 5,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare profiles that are tried in service, as shadows or canaries, with those that answer.

    A shadow recalls the same queries after the reply, so its answers are paired; a canary answers a share of the
    sessions, so each side has queries of its own. The measures are those of `decisions replay`, over
    the newest 20,000 answers: shares of empty, unsure and degraded answers, times, overlap, and hit and MRR where
    callers gave feedback. A shadow reuses the vector of the question, so its times compare only roughly. For single
    answers: the view recall_trials.

    Example: `orion-recall decisions compare --since P7D`
    """
    after = moment("--since", since)

    async def compare(settings: Settings) -> list[tuple[str, str, str, Compared]]:
        async with open_postgres(settings) as pool:
            return await compared_trials(pool, profile=profile, since=after, k=k)

    found = asyncio.run(compare(find(data)))
    if as_json:
        trials = [
            {"kind": kind, "profile": answering, "tried_profile": tried} | compared_json(both)
            for kind, answering, tried, both in found
        ]
        print_json({"k": k, "trials": trials})
        return
    for kind, answering, tried, both in found:
        show_compared(both, f"{tried} as a {kind} of {answering}")
    note(CHANGED_IS_NOT_WORSE if found else "no query was answered under a shadow or beside a canary")


def show_compared(between: Compared, title: str) -> None:
    """A comparison as two tables: what each side is, and how alike they are where both answered."""
    out, (before, after) = console(), between.answers
    rows = [
        ("answers", before, after, "", ""),
        *(
            (name, f"{one.before:.4g}", f"{one.after:.4g}", f"{one.difference.mean:+.4g}", interval(one.difference))
            for name, one in between.levels.items()
        ),
        *(
            (name, f"{times[0]:.4g}", f"{times[1]:.4g}", f"{times[1] - times[0]:+.4g}", "")
            for name, times in (("p50_ms", between.p50_ms), ("p95_ms", between.p95_ms))
        ),
    ]
    out.print(table(("", "before", "after", "difference", "95% interval"), rows, title=title))
    if between.means:
        alike = [
            (name, f"{mean.mean:.4f}", interval(mean), queries) for name, (mean, queries) in between.means.items()
        ]
        out.print(table(("both", "mean", "95% interval", "queries"), alike))
