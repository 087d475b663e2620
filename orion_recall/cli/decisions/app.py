"""`orion-recall decisions`: the log as a list, by SQL, and deleting of what is old. The others have modules."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, analyst_of, find, open_postgres
from orion_recall.cli.decisions.compare import compare_profiles
from orion_recall.cli.decisions.one import explain_logged_decision, show_decision
from orion_recall.cli.decisions.replay import replay_decisions
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import JsonFlag, counted, limited, show, table
from orion_recall.decisions.log import DecisionLog, Latest
from orion_recall.decisions.retention import Deleted, count_older, purge_older
from orion_recall.decisions.sql import NO_RIGHT, SQL_MOST_BYTES, SqlResult
from orion_recall.errors import RecordError, SettingsError
from orion_recall.postgres.pool import sqlstate
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES

_ID_CHARS, _QUERY_CHARS = 8, 80

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look into the decision log.

    It has one row for each query: what was found, kept and dropped, why, by which source, in how many ms, under
    which profile. The table is recall_decisions; its views are recall_queries, recall_selected,
    recall_candidates, recall_layers, recall_stage_ms, recall_trials, recall_follow_ups, recall_by_profile_hour,
    recall_by_source, recall_dropped, recall_memory_usage and recall_feedback_by_profile; recall_texts and
    recall_never_selected are for orion_reader; the profiles behind the hashes are in recall_profiles.

    Example: `orion-recall decisions sql "SELECT profile, count(*) FROM recall_decisions GROUP BY 1"`
    """,
)
app.command("show")(show_decision)
app.command("explain")(explain_logged_decision)
app.command("replay")(replay_decisions)
app.command("compare")(compare_profiles)


@app.command("list")
def list_decisions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Decisions at most.")] = 20,
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    shadows: Annotated[bool, typer.Option("--shadows", help="Include those of shadow profiles.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="So many random ones, instead of the latest.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample: another seed gives other decisions.")] = 0,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List the latest decisions, newest first.

    With --sample they are random ones, for people to judge: each on its page of the console. Ids are shortened to
    their first characters, which `decisions show` takes; --json has them whole.

    Example: `orion-recall decisions list --outcome empty --since P1D`
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise SettingsError(f"--outcome: {outcome!r} is none of {', '.join(OUTCOMES)}")
    after = moment("--since", since)

    async def latest(settings: Settings) -> Latest:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            drawn = None if sample is None else seed
            return await log.latest(
                sample or limit, outcome=outcome, profile=profile, since=after, shadows=shadows, seed=drawn
            )

    found = asyncio.run(latest(find(data)))
    rows = [
        (f"{one.created_at:%Y-%m-%d %H:%M}", one.id[:_ID_CHARS], one.profile, one.outcome, round(one.latency_ms, 1),
         len(one.selected_ids), one.query[:_QUERY_CHARS])
        for one in found.decisions
    ]  # fmt: skip
    of_others = f"{counted(found.left_out, 'decision')} left out: another version's, which this one cannot read"
    show(
        {"decisions": [one.model_dump(mode="json") for one in found.decisions], "left_out": found.left_out},
        table(("at (UTC)", "id", "profile", "outcome", "ms", "kept", "query"), rows),
        as_json=as_json,
        remarks=[of_others if found.left_out else None],
    )


@app.command("sql")
def run_sql(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement that only reads.")],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Rows at most.")] = 1000,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a SELECT over the decision log, read-only, for up to 30 s and up to 8 MiB of rows.

    Example: `orion-recall decisions sql "SELECT * FROM recall_by_source ORDER BY hour DESC" --limit 8`
    """

    async def run(settings: Settings) -> SqlResult:
        async with open_postgres(analyst_of(settings), name="sql") as pool:
            return await DecisionLog(pool).run_sql(sql, limit)

    settings = find(data)
    try:
        result = asyncio.run(run(settings))
    except RecordError as error:
        has_right = error.__cause__ is None or sqlstate(error.__cause__) != NO_RIGHT
        if has_right or settings.analyst_dsn is not None or analyst_of(settings).dsn == settings.dsn:
            raise
        # The embedded Postgres: whoever runs this owns it, and its socket has no password.
        raise RecordError(f'{error}: psql "{settings.dsn}"') from error
    shown = table(result.columns, result.rows)
    if not result.rows:
        shown = table(("columns of the result",), [(name,) for name in result.columns])
    size = (
        f"limited to {SQL_MOST_BYTES >> 20} MiB, which are {counted(len(result.rows), 'row')}: name fewer columns, "
    )
    show(
        {"columns": result.columns, "rows": result.rows, "truncated": result.truncated},
        shown,
        as_json=as_json,
        remarks=[
            None if result.rows else "there is no row; these are the columns that a row would have",
            size + "or shorten them, as left(query, 200)" if result.is_too_large else None,
            limited(limit + 1, limit, "row") if result.truncated and not result.is_too_large else None,
        ],
    )


@app.command("purge")
def purge_decisions(
    older_than: Annotated[str, typer.Option(help="Decisions older than this: 30d, 2 months ago, 2026-03-01.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete old decisions from the log, and print how many of which profile.

    Decisions on the bus are not touched: they stay there for ORION_DECISIONS_KEEP_S after they were written here.
    Workers purge by themselves where ORION_DECISIONS_RETENTION_DAYS is set.

    Example: `orion-recall decisions purge --older-than 30d --dry-run`
    """
    before = moment("--older-than", older_than)
    if before is None or before > datetime.now(UTC):
        raise SettingsError(f"--older-than: {older_than!r} is in the future: that would be every decision")

    async def purge(settings: Settings) -> list[Deleted]:
        async with open_postgres(settings) as pool:
            return await (count_older if dry_run else purge_older)(pool, before)

    gone = asyncio.run(purge(find(data)))
    count = sum(part.count for part in gone)
    columns = ("profile", "outcome", "decisions", "oldest (UTC)", "newest (UTC)")
    rows = [(part.profile, part.outcome, part.count, part.oldest, part.newest) for part in gone]
    what = "would be deleted" if dry_run else "deleted"
    show(
        {"older_than": before, "dry_run": dry_run, "count": count, "gone": gone},
        *([table(columns, rows)] if gone else []),
        as_json=as_json,
        remarks=[f"{counted(count, 'decision')} from before {before:%Y-%m-%d %H:%M:%S} UTC {what}"],
    )
