"""`orion-recall decisions`: the log as a list and by SQL, one decision and its explanation, replay, deleting."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.addresses import DataFolder, analyst_of, find, open_postgres, record_of, within
from orion_recall.cli.ask import cascade_steps, trace_shown
from orion_recall.cli.evaluate import CacheFolder, NoCache, cache_of, interval
from orion_recall.cli.options import MOMENT_HELP, moment
from orion_recall.cli.output import (
    NotFound,
    Remark,
    Shown,
    Table,
    counted,
    document,
    group,
    heading,
    limited,
    listed,
    note,
    print_error,
    progress_bars,
    show,
    wants_json,
)
from orion_recall.cli.setup.profiles import named_profile
from orion_recall.cli.signals import interrupted_once
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.comparison import Compared, compared_trials
from orion_recall.decisions.log import SQL_MOST_BYTES, DecisionLog
from orion_recall.decisions.memories import SelectedTexts, selected_texts
from orion_recall.decisions.removal import count_older, purge_older
from orion_recall.errors import OrionError, SettingsError
from orion_recall.evaluation.replay import report
from orion_recall.evaluation.replay.report import Summary, Verdict
from orion_recall.evaluation.replay.run import AsOf, Choice, ReplayPlan, ReplayRun, as_of_decision, replay, why_none
from orion_recall.evaluation.vectors import VectorCache, default_folder
from orion_recall.postgres.pool import Pool
from orion_recall.recall.report.reply import stats_of
from orion_recall.recall.report.sentences import ended_words, trigger_words, why_not_sentence
from orion_recall.serving.explain import decision_named, explain_decision, why_not
from orion_recall.settings import Settings
from orion_recall.telemetry import log_to_stderr
from orion_recall.values import OUTCOMES, QUERY_CLASSES

_MIN_PREFIX, _SHOWN, _TEXT_CHARS = 4, 5, 300
_ID_CHARS, _QUERY_CHARS, _CHANGED_CHARS = 8, 80, 60
_ANY = "any"
# With a lower share of logged answers that come again, something else than the profile has changed a good deal.
_TRUSTED = 0.95
DecisionId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help=f"A correlation id, or a decision's id, or its first {_MIN_PREFIX} or more characters, where no other "
        "begins so.",
    ),
]
_FIGURES = {"profile", "profile_hash", "outcome", "selected_ids", "dropped", "sources", "confidence", "tokens"}

app = group("""Look into the decision log.

    It has one row for each query: what was found, kept and dropped, why, by which source, in how many ms, under
    which profile. The table is recall_decisions; its views are recall_queries, recall_selected,
    recall_candidates, recall_layers, recall_stage_ms, recall_trials, recall_follow_ups, recall_by_profile_hour,
    recall_by_source, recall_dropped, recall_memory_usage and recall_feedback_by_profile; recall_texts and
    recall_never_selected are for orion_reader; the profiles behind the hashes are in recall_profiles.

    Example: `orion-recall decisions sql "SELECT profile, count(*) FROM recall_decisions GROUP BY 1"`
    """)


@app.command("show")
def show_decision(decision_id: DecisionId, data: DataFolder = None) -> None:
    """Show everything about one decision, by its own id or its correlation id.

    The texts of its memories are shown as they are now, where the login of ORION_POSTGRES_DSN may read them.

    Example: `orion-recall decisions show 875a5172`
    """

    async def get(pool: Pool) -> list[tuple[RecallDecisionV1, SelectedTexts]]:
        log = DecisionLog(pool)
        found = await log.get(decision_id) or await log.get(await whole_id(decision_id, log.ids_starting))
        return [(one, await selected_texts(pool, one.id)) for one in found]

    found = within(open_postgres(find(data)), get)
    decisions = [decision.model_dump(mode="json") for decision, _ in found]
    value = {"decisions": decisions, "texts": {decision.id: texts for decision, texts in found}}
    show(value, *(part for decision, texts in found for part in _parts(decision, texts)))


@app.command("explain")
def explain_logged_decision(
    decision_id: DecisionId,
    memory: Annotated[str | None, typer.Option("--why-not", help="Why this memory is not in the answer.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only a decision of this tenant.")] = None,
    as_of: Annotated[AsOf, typer.Option(help="Ask again on the data of now, or of the decision.")] = "now",
    data: DataFolder = None,
) -> None:
    """Explain a logged answer as `ask --explain` does, or say why a memory is not in it.

    It is told from the candidates that the decision kept (profile key `decisions`). Where it kept none, or they do
    not name the memory, the question is asked again on the data as they are now, which is said: with the decision's
    options, scope, clock and profile; nothing of that is counted or logged. With `--as-of decision` it is asked on
    an index and a graph that are built as they were, as `decisions replay` does. `--why-not` names the first stage
    that lost the memory, and by how much. Texts of memories are shown as they are now, where the login of
    ORION_POSTGRES_DSN may read them. Exit code 1: there is no such decision, or no such memory of its tenant.

    Example: `orion-recall decisions explain 875a5172 --why-not crane-05`
    """
    asyncio.run(_explain(find(data), decision_id, memory, tenant, as_of=as_of))


async def _explain(settings: Settings, name: str, memory: str | None, tenant: str | None, *, as_of: str) -> None:
    with interrupted_once():
        async with record_of(settings) as (settings, pool):
            decision = await _named(pool, name, tenant)
            with progress_bars() as bars:
                asker = as_of_decision(VectorCache(default_folder()), bars) if as_of == "decision" else None
                if memory is not None:
                    lost = await why_not(pool, settings, decision, memory, asker=asker)
                    if lost is None:
                        raise NotFound(f"there is no memory {memory!r} that the decision could have found")
                    words = why_not_sentence(lost)
                    value = {"decision": decision.id, "memory": memory, **asdict(lost), "words": words}
                    show(value, f"{lost.stage}: {words}", remarks=lost.notes)
                    return
                told = await explain_decision(pool, settings, decision, asker=asker)
            texts = await selected_texts(pool, decision.id)
    figures = told.decision.model_dump(mode="json", include=_FIGURES)
    value = {"decision": decision.id, "basis": told.basis, "notes": told.notes, **figures}
    said = {one.memory_id: {"text": one.text, "speaker": one.speaker} for one in texts.items}
    candidates = [{**one, **said.get(one["id"], {})} for one in told.trace["candidates"]]
    stats, trace = stats_of(told.decision), {**told.trace, "candidates": candidates}
    shown = () if wants_json() else trace_shown(stats, trace)
    show({**value, "trace": told.trace, "texts": texts}, *map(Remark, told.notes), *shown)


async def _named(pool: Pool, name: str, tenant: str | None) -> RecallDecisionV1:
    if (decision := await decision_named(pool, name, tenant=tenant)) is not None:
        return decision
    whole = await whole_id(name, partial(DecisionLog(pool).ids_starting, tenant=tenant))
    if (decision := await decision_named(pool, whole, tenant=tenant)) is None:
        raise _no_decision(name)
    return decision


async def whole_id(given: str, starting: Callable[[str, int], Awaitable[Sequence[str]]]) -> str:
    """The one id that begins so, told on standard error. NotFound for none, SettingsError for several.

    `starting` gives up to so many ids that begin with a prefix.
    """
    found = await starting(given, _SHOWN + 1) if len(given) >= _MIN_PREFIX else ()
    if not found:
        raise _no_decision(given)
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (", and more" if len(found) > _SHOWN else "")
        raise SettingsError(f"{given!r} is the beginning of several decision ids: {shown}; give more characters")
    note(f"{given} is {found[0]}")
    return found[0]


def _no_decision(name: str) -> NotFound:
    return NotFound(f"there is no decision {name!r} (the newest may be a moment late)")


def _parts(decision: RecallDecisionV1, texts: SelectedTexts) -> Iterator[Shown]:
    left_out = {"candidates", "cascade", "selected_ids", "asked", "not_replayable"}
    told = decision.model_dump(mode="json", exclude=left_out)
    told |= {f"asked {name}": value for name, value in (decision.asked or {}).items()}
    is_known = "possible as it was" if decision.asked else "not known: what was asked was not kept"
    told["ask again"] = f"not possible as it was: {why}" if (why := decision.not_replayable) else is_known
    said = [asdict(one) | {"text": (one.text or "")[:_TEXT_CHARS]} for one in texts.items]
    yield from document(told | {"texts now": f"not shown, {texts.why_not}" if texts.why_not else said})
    if decision.cascade is not None:
        cascade = decision.cascade.model_dump()
        yield heading("The cascade through the layers")
        yield cascade_steps(cascade)
        yield f"{trigger_words(cascade)}; {ended_words(cascade)}"


@app.command("list")
def list_decisions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Decisions at most.")] = 20,
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    verb: Annotated[str | None, typer.Option(help="Only those with this verb.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only those of this tenant.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    data: DataFolder = None,
) -> None:
    """List the latest decisions, newest first.

    Ids are shortened to their first characters, which `decisions show` takes; --json has them whole.

    Example: `orion-recall decisions list --outcome empty --since P1D`
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise SettingsError(f"--outcome: {outcome!r} is none of {', '.join(OUTCOMES)}")
    after = moment("--since", since)
    decisions, left_out = within(
        open_postgres(find(data)),
        lambda pool: DecisionLog(pool).latest(
            limit, outcome=outcome, profile=profile, verb=verb, tenant=tenant, since=after
        ),
    )
    rows = [
        (f"{one.created_at:%Y-%m-%d %H:%M}", one.id[:_ID_CHARS], one.profile, one.outcome, round(one.latency_ms, 1),
         len(one.selected_ids), one.query[:_QUERY_CHARS])
        for one in decisions
    ]  # fmt: skip
    of_others = f"{counted(left_out, 'decision')} left out: another version's, which this one cannot read"
    listed(
        {"decisions": [one.model_dump(mode="json") for one in decisions], "left_out": left_out},
        ("at (UTC)", "id", "profile", "outcome", "ms", "kept", "query"),
        rows,
        nothing="there is no such decision",
        remarks=[of_others if left_out else None],
    )


@app.command("sql")
def run_sql(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that only reads.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    data: DataFolder = None,
) -> None:
    """Run a SELECT over the decision log, read-only, for up to 30 s and up to 8 MiB of rows.

    Example: `orion-recall decisions sql "SELECT * FROM recall_by_source ORDER BY hour DESC" --limit 8`
    """
    result = within(open_postgres(analyst_of(find(data))), lambda pool: DecisionLog(pool).run_sql(sql, limit))
    size = (
        f"limited to {SQL_MOST_BYTES >> 20} MiB, which are {counted(len(result.rows), 'row')}: name fewer columns, "
    )
    listed(
        {"columns": result.columns, "rows": result.rows, "truncated": result.truncated},
        result.columns if result.rows else ("columns of the result",),
        result.rows or [(name,) for name in result.columns],
        remarks=[
            None if result.rows else "there is no row; these are the columns that a row would have",
            size + "or shorten them, as left(query, 200)" if result.is_too_large else None,
            limited(limit, "row") if result.truncated and not result.is_too_large else None,
        ],
    )


@app.command("purge")
def purge_decisions(
    older_than: Annotated[str, typer.Option(help="Decisions older than this: 30d, 2 months ago, 2026-03-01.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    data: DataFolder = None,
) -> None:
    """Delete old decisions from the log, and print how many, from when to when.

    Decisions on the bus are not touched: they stay there for ORION_DECISIONS_KEEP_S after they were written here.
    Workers purge by themselves where ORION_DECISIONS_RETENTION_DAYS is set.

    Example: `orion-recall decisions purge --older-than 30d --dry-run`
    """
    before = moment("--older-than", older_than)
    if before is None or before > datetime.now(UTC):
        raise SettingsError(f"--older-than: {older_than!r} is in the future: that would be every decision")
    delete = count_older if dry_run else purge_older
    gone = within(open_postgres(find(data)), lambda pool: delete(pool, before))
    what = "would be deleted" if dry_run else "deleted"
    listed(
        {"older_than": before, "dry_run": dry_run, **asdict(gone)},
        ("decisions", "oldest (UTC)", "newest (UTC)"),
        [(gone.count, gone.oldest or "", gone.newest or "")],
        remarks=[f"{counted(gone.count, 'decision')} from before {before:%Y-%m-%d %H:%M:%S} UTC {what}"],
    )


@app.command("replay")
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
    most: Annotated[int, typer.Option("--show", min=0, help="Changed queries to list.")] = 10,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
    data: DataFolder = None,
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
    gate = report.Gate.of(fail_under, fail_over, k, min_queries=min_queries, strict=strict)
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

    async def replayed(settings: Settings) -> ReplayRun:
        with interrupted_once():
            async with record_of(settings, name="replay") as (settings, pool):
                with progress_bars() as bars:
                    return await replay(pool, settings, plan, bars)

    try:
        run = asyncio.run(replayed(find(data)))
    except OrionError as error:
        if gate is None:
            raise
        print_error(str(error), type(error).__name__)
        return report.CANNOT_JUDGE
    if not run.queries and gate is None:
        raise NotFound(why_none(run, choice))
    summary = report.summed_up(run, k=k)
    verdict = gate.verdict(run, summary, plan) if gate is not None else None
    try:
        value = report.as_json(run, summary, verdict, plan, redact=redact)
        show(value, *_replay_shown(run, summary, verdict, plan, most=most, redact=redact))
        sys.stdout.flush()
    except OSError as error:
        if verdict is None:
            raise
        # Nobody can read the verdict: 1 would say that the gate failed.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print_error(f"the report cannot be printed: {error.strerror}")
        return report.CANNOT_JUDGE
    return 0 if verdict is None else verdict.exit_code


def _listed_ids(file: Path) -> tuple[str, ...]:
    try:
        listed = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--ids: {file} cannot be read: {error}") from error
    return tuple(dict.fromkeys(line.strip() for line in listed if line.strip()))


def _replay_shown(
    run: ReplayRun, summary: Summary, verdict: Verdict | None, plan: ReplayPlan, *, most: int, redact: bool
) -> Iterator[Shown]:
    if summary.drift.queries:
        yield from compared_shown(summary.drift, "The logged profile asked again, against the log")
    if summary.tried is not None and plan.tried is not None:
        yield from compared_shown(summary.tried, f"{plan.tried.profile} against the control")
    if summary.changed and most:
        changed = [
            (one.replayed.logged.id[:_ID_CHARS],
             "" if redact else one.replayed.logged.query.fragment[:_CHANGED_CHARS],
             f"{one.overlap:.3f}", ", ".join(one.pair.gained), ", ".join(one.pair.lost),
             ", ".join(name for name in one.pair.lost if name in one.pair.judged.used))
            for one in summary.changed[:most]
        ]  # fmt: skip
        title = f"\nThe most changed of {counted(len(summary.changed), 'changed query', 'changed queries')}"
        yield Table(("decision", "query", "overlap", "gained", "lost", "used and lost"), changed, title=title)
    yield from map(Remark, _remarks(run, summary))
    if verdict is not None and verdict.checks:
        checks = [(check.threshold.text, check.words, check.verdict) for check in verdict.checks]
        yield Table(("threshold", "found", ""), checks, title="\nThe gate")
    if verdict is not None and verdict.cannot_judge is not None:
        yield Remark(f"it cannot be judged: {verdict.cannot_judge}")


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
        remarks.append(report.CHANGED_IS_NOT_WORSE)
    return remarks


@app.command("compare")
def compare_profiles(
    profile: Annotated[str | None, typer.Option(help="Only those tried beside this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later answers: {MOMENT_HELP}")] = None,
    k: Annotated[int, typer.Option(min=1, max=100, help="Depth of the overlap.")] = 5,
    data: DataFolder = None,
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
    opening = open_postgres(find(data))
    found = within(opening, lambda pool: compared_trials(pool, profile=profile, since=after, k=k))
    trials = [
        {"kind": kind, "profile": answering, "tried_profile": tried} | report.compared_json(both)
        for kind, answering, tried, both in found
    ]
    shown = (
        part
        for kind, answering, tried, both in found
        for part in compared_shown(both, f"{tried} as a {kind} of {answering}")
    )
    nothing = "no query was answered under a shadow or beside a canary"
    show({"k": k, "trials": trials}, *shown, remarks=[report.CHANGED_IS_NOT_WORSE if found else nothing])


def compared_shown(between: Compared, title: str) -> Iterator[Shown]:
    """A comparison as two tables: what each side is, and how alike they are where both answered."""
    before, after = between.answers
    rows: list[tuple[object, ...]] = [("answers", before, after, "", "")]
    for name, one in between.levels.items():
        difference = f"{one.difference.mean:+.4g}", interval(one.difference)
        rows.append((name, f"{one.before:.4g}", f"{one.after:.4g}", *difference))
    for name, (was, now) in (("p50_ms", between.p50_ms), ("p95_ms", between.p95_ms)):
        rows.append((name, f"{was:.4g}", f"{now:.4g}", f"{now - was:+.4g}", ""))
    yield Table(("", "before", "after", "difference", "95% interval"), rows, title=title)
    if between.means:
        means = between.means.items()
        alike = [(name, f"{mean.mean:.4f}", interval(mean), queries) for name, (mean, queries) in means]
        yield Table(("both", "mean", "95% interval", "queries"), alike)
