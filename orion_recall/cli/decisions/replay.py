"""`orion-recall decisions replay`: logged queries asked again, on the memories of then, under another profile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from orion_recall.atomic_file import whole_text
from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.connect.record import with_record
from orion_recall.cli.decisions.replay_output import show_replay
from orion_recall.cli.evaluate.files import CacheFolder, NoCache
from orion_recall.cli.evaluate.output import RunBars, progress_bars
from orion_recall.cli.interrupts import interrupted_once
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, print_error, print_json
from orion_recall.cli.profiles import named_profile
from orion_recall.errors import OrionError, SettingsError
from orion_recall.evaluation.decision_replay.gate import Verdict, judge, thresholds
from orion_recall.evaluation.decision_replay.logged import Choice, why_none
from orion_recall.evaluation.decision_replay.reports import as_json as report_json
from orion_recall.evaluation.decision_replay.reports import junit, lines, markdown
from orion_recall.evaluation.decision_replay.run import ReplayPlan, ReplayRun, replay
from orion_recall.evaluation.decision_replay.summary import Summary, summed_up
from orion_recall.evaluation.plan import Cache
from orion_recall.evaluation.vectors import default_folder
from orion_recall.profile import Profile
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import QUERY_CLASSES

_ANY = "any"
_LEAST_QUERIES = 50
_GATE, _WHICH, _FILES = "The gate", "Which queries", "Reports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files to write: a JSON line for each query, JUnit XML, Markdown."""

    out: Path | None
    junit: Path | None
    markdown: Path | None


def replay_decisions(
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="The profile to try: a name, or a YAML file. Without it: the control."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}", rich_help_panel=_WHICH)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only earlier ones.", rich_help_panel=_WHICH)] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only these: a decision or correlation id a line.", rich_help_panel=_WHICH
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.", rich_help_panel=_WHICH)] = None,
    query_class: Annotated[
        str | None,
        typer.Option("--class", help=f"Only of this class: {', '.join(QUERY_CLASSES)}.", rich_help_panel=_WHICH),
    ] = None,
    profile_of: Annotated[
        str | None,
        typer.Option(
            help="Only those under this profile (default: the one named as the tried one); any: all.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="So many at most, drawn.", rich_help_panel=_WHICH)] = 500,
    seed: Annotated[int, typer.Option(help="Of the draw.", rich_help_panel=_WHICH)] = 0,
    as_of: Annotated[
        Literal["decision", "now"], typer.Option(help="On the memories as each decision found them, or as of now.")
    ] = "decision",
    against: Annotated[
        Literal["control", "logged"],
        typer.Option(help="What the tried profile is compared with: the logged profile asked again, or the log."),
    ] = "control",
    k: Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")] = 5,
    fail_under: Annotated[
        str | None,
        typer.Option(metavar="M=X,…", help="Means wanted: overlap@5=.8,used_kept=1", rich_help_panel=_GATE),
    ] = None,
    fail_over: Annotated[
        str | None,
        typer.Option(metavar="M=+X,…", help="Increases allowed: empty=+.01,p95_ms=+10%", rich_help_panel=_GATE),
    ] = None,
    min_queries: Annotated[
        int | None,
        typer.Option(min=1, help=f"With fewer it cannot be judged ({_LEAST_QUERIES}).", rich_help_panel=_GATE),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="The 95% interval counts, not the mean.", rich_help_panel=_GATE)
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="A line for each query.", rich_help_panel=_FILES)
    ] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="JUnit XML.", rich_help_panel=_FILES)
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE.md", help="Markdown.", rich_help_panel=_FILES)
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Leave the texts of queries out of every report.", rich_help_panel=_FILES),
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="Changed queries to list.", rich_help_panel=_FILES)] = 10,
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
    wanted = thresholds(fail_under, fail_over, k)
    tried = named_profile(profile) if profile is not None else None
    choice = Choice(
        since=moment("--since", since),
        until=moment("--until", until, end=True),
        tenant=tenant,
        query_class=query_class,
        profile=_answered_by(profile_of, tried),
        ids=None if ids is None else _ids_in(ids),
        sample=sample,
        seed=seed,
    )
    kept = None if no_cache else Cache(cache or default_folder())
    plan = ReplayPlan(choice=choice, tried=tried, as_of=as_of, cache=kept)
    is_gate = bool(wanted) or min_queries is not None
    if junit_file is not None and not is_gate:
        raise SettingsError("--junit: it has a test for each threshold: give --fail-under or --fail-over")
    try:
        run = asyncio.run(_replayed(find(data), plan))
    except OrionError as error:
        if not is_gate:
            raise
        print_error(type(error).__name__, str(error), as_json=as_json)
        return 2
    if not run.queries and not is_gate:
        print_error("NotFound", why_none(run.chosen, choice), as_json=as_json)
        return 1
    summary = summed_up(run, k=k, against=against)
    verdict = None
    if is_gate:
        least = min_queries or _LEAST_QUERIES
        verdict = judge(
            summary.compared,
            wanted,
            least_queries=least,
            strict=strict,
            silent=run.silent,
            why_none=None if run.queries else why_none(run.chosen, choice),
        )
    _write(Files(out=out, junit=junit_file, markdown=markdown_file), run, summary, verdict, plan, redact=redact)
    try:
        if as_json:
            print_json(report_json(run, summary, verdict, plan, redact=redact))
        else:
            show_replay(run, summary, verdict, plan, show=show, redact=redact)
        sys.stdout.flush()
    except OSError as error:
        if not is_gate:
            raise
        return _not_told(error)
    return 0 if verdict is None else verdict.exit_code


def _not_told(error: OSError) -> int:
    """The exit code where nobody can read the verdict: 1 would say that the gate failed."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print_error(type(error).__name__, f"the report cannot be printed: {error.strerror}", as_json=False)
    return 2


async def _replayed(settings: Settings, plan: ReplayPlan) -> ReplayRun:
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(interrupted_once())
        settings = await with_record(settings, stack)
        pool = await stack.enter_async_context(open_postgres(settings, name="replay"))
        bars = stack.enter_context(progress_bars())
        return await replay(pool, settings, plan, RunBars(bars))


def _answered_by(profile_of: str | None, tried: Profile | None) -> str | None:
    if profile_of == _ANY:
        return None
    return profile_of or (tried.profile if tried is not None else None)


def _ids_in(file: Path) -> tuple[str, ...]:
    try:
        told = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--ids: {file} cannot be read: {error}") from error
    return tuple(dict.fromkeys(line.strip() for line in told if line.strip()))


def _write(
    files: Files, run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, redact: bool
) -> None:
    name = plan.tried.profile if plan.tried is not None else "control"
    if files.out is not None:
        with _report(files.out) as file:
            for line in lines(run, summary, redact=redact):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    if files.junit is not None and verdict is not None:
        with _report(files.junit) as file:
            file.write(junit(summary, verdict, name=f"replay of {name}", seconds=run.seconds))
    if files.markdown is not None:
        with _report(files.markdown) as file:
            file.write(markdown(run, summary, verdict, title=f"Replay of {name}", redact=redact))


@contextlib.contextmanager
def _report(target: Path) -> Generator[TextIO]:
    try:
        with whole_text(target) as file:
            yield file
    except OSError as error:
        raise SettingsError(f"{target} cannot be written: {error.strerror}") from error
