"""`orion-recall decisions replay`: logged queries asked again, on the memories of then, under another profile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.record import with_record
from orion_recall.cli.decisions import replay_options as opt
from orion_recall.cli.decisions.replay_output import show_replay
from orion_recall.cli.evaluate.files import CacheFolder, NoCache
from orion_recall.cli.evaluate.output import RunBars, progress_bars
from orion_recall.cli.interrupts import interrupted_once
from orion_recall.cli.moments import moment
from orion_recall.cli.output import JsonFlag, print_error, print_json
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.errors import OrionError, SettingsError
from orion_recall.evaluation.decision_replay.gate import CANNOT_JUDGE, gate_of
from orion_recall.evaluation.decision_replay.logged import Choice, why_none
from orion_recall.evaluation.decision_replay.plan import ReplayPlan, answered_by, listed_ids
from orion_recall.evaluation.decision_replay.report_files import ReportFiles
from orion_recall.evaluation.decision_replay.reports import as_json as report_json
from orion_recall.evaluation.decision_replay.run import ReplayRun, replay
from orion_recall.evaluation.decision_replay.summary import summed_up
from orion_recall.evaluation.plan import Cache
from orion_recall.evaluation.vectors import default_folder
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import QUERY_CLASSES


def replay_decisions(
    profile: opt.TriedProfile = None,
    since: opt.Since = None,
    until: opt.Until = None,
    ids: opt.IdsFile = None,
    tenant: opt.OfTenant = None,
    query_class: opt.OfClass = None,
    profile_of: opt.OfProfile = None,
    sample: opt.Sample = 500,
    seed: opt.Seed = 0,
    as_of: opt.MemoriesAsOf = "decision",
    against: opt.ComparedWith = "control",
    k: opt.Depth = 5,
    fail_under: opt.FailUnder = None,
    fail_over: opt.FailOver = None,
    min_queries: opt.MinQueries = None,
    strict: opt.Strict = False,
    out: opt.LinesFile = None,
    junit_file: opt.JunitFile = None,
    markdown_file: opt.MarkdownFile = None,
    redact: opt.Redact = False,
    show: opt.Show = 10,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Ask logged queries again, as of then, under another profile: what would have been answered?

    Each query is asked twice on the memories that it was asked on: under the profile that answered it (the control:
    what differs from the log is due to code, data or time) and under the tried one. Nothing is written but the
    reports, no use of memories is counted, and sources get all the time they want. Degraded answers are set apart.
    It reads with a login such as a worker's. Exit codes with a gate: 0 passed, 1 failed, 2 it cannot be judged.

    Example: `orion-recall decisions replay --since 1d --profile mine/reflect.v1.yaml --fail-under overlap@5=.8`
    """
    if cache is not None and no_cache:
        raise SettingsError("--cache and --no-cache do not go together")
    if query_class is not None and query_class not in QUERY_CLASSES:
        raise SettingsError(f"--class: {query_class!r} is none of {', '.join(QUERY_CLASSES)}")
    log_to_stderr("warning")
    gate = gate_of(fail_under, fail_over, k, min_queries=min_queries, strict=strict)
    tried = named_profile(profile) if profile is not None else None
    choice = Choice(
        since=moment("--since", since),
        until=moment("--until", until, end=True),
        tenant=tenant,
        query_class=query_class,
        profile=answered_by(profile_of, tried),
        ids=None if ids is None else listed_ids(ids),
        sample=sample,
        seed=seed,
    )
    kept = None if no_cache else Cache(cache or default_folder())
    plan = ReplayPlan(choice=choice, tried=tried, as_of=as_of, cache=kept)
    if junit_file is not None and gate is None:
        raise SettingsError("--junit: it has a test for each threshold: give --fail-under or --fail-over")
    try:
        run = asyncio.run(_replayed(find(data), plan))
    except OrionError as error:
        if gate is None:
            raise
        print_error(type(error).__name__, str(error), as_json=as_json)
        return CANNOT_JUDGE
    if not run.queries and gate is None:
        print_error("NotFound", why_none(run.chosen, choice), as_json=as_json)
        return 1
    summary = summed_up(run, k=k, against=against)
    verdict = gate.verdict(run, summary, plan) if gate is not None else None
    files = ReportFiles(out=out, junit=junit_file, markdown=markdown_file)
    files.write(run, summary, verdict, plan, redact=redact)
    try:
        if as_json:
            print_json(report_json(run, summary, verdict, plan, redact=redact))
        else:
            show_replay(run, summary, verdict, plan, show=show, redact=redact)
        sys.stdout.flush()
    except OSError as error:
        if verdict is None:
            raise
        return _not_told(error)
    return 0 if verdict is None else verdict.exit_code


def _not_told(error: OSError) -> int:
    """The exit code where nobody can read the verdict: 1 would say that the gate failed."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print_error(type(error).__name__, f"the report cannot be printed: {error.strerror}", as_json=False)
    return CANNOT_JUDGE


async def _replayed(settings: Settings, plan: ReplayPlan) -> ReplayRun:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(interrupted_once())
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings, name="replay"))
        bars = stack.enter_context(progress_bars())
        return await replay(pool, settings, plan, RunBars(bars))
