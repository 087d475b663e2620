"""`orion-recall decisions`: list, show, query, compare and purge the decision log."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, analyst_of, find, open_postgres
from orion_recall.cli.connect.ids import PREFIX_HELP, full_id
from orion_recall.cli.evaluate.review import sample
from orion_recall.cli.moments import MOMENT_HELP, moment
from orion_recall.cli.output import (
    JsonFlag,
    console,
    counted,
    note,
    pairs,
    print_error,
    print_json,
    prose,
    table,
    visible,
)
from orion_recall.contracts import CascadeV1, RecallDecisionV1
from orion_recall.decisions.comparison import Comparison, compare_shadows
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.retention import Deleted, count_older, purge_older
from orion_recall.decisions.sql import SQL_MOST_BYTES, SqlResult
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings
from orion_recall.values import OUTCOMES

_ID_CHARS = 8

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look into the decision log.

    It has one row for each query: what was found, kept and dropped, why, by which source, in how many ms, under
    which profile. The table is recall_decisions; its views are recall_by_profile_hour, recall_by_source,
    recall_dropped, recall_selected, recall_layers, recall_shadows, recall_canaries and recall_follow_ups.

    Example: `orion-recall decisions sql "SELECT profile, count(*) FROM recall_decisions GROUP BY 1"`
    """,
)


app.command("sample")(sample)


@app.command("list")
def list_decisions(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Decisions at most.")] = 20,
    outcome: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(OUTCOMES)}.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only those under this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    shadows: Annotated[bool, typer.Option("--shadows", help="Include those of shadow profiles.")] = False,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """List the latest decisions, newest first.

    Ids are shortened to their first characters, which `decisions show` takes; --json has them whole.

    Example: `orion-recall decisions list --outcome empty --since P1D`
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise SettingsError(f"--outcome: {outcome!r} is none of {', '.join(OUTCOMES)}")
    after = moment("--since", since)

    async def latest(settings: Settings) -> list[RecallDecisionV1]:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            return await log.latest(limit, outcome=outcome, profile=profile, since=after, shadows=shadows)

    found = asyncio.run(latest(find(data)))
    if as_json:
        print_json({"decisions": [decision.model_dump(mode="json") for decision in found]})
        return
    rows = [
        (
            f"{one.created_at:%Y-%m-%d %H:%M}",
            one.id[:_ID_CHARS],
            one.profile,
            one.outcome,
            round(one.latency_ms, 1),
            len(one.selected_ids),
            one.query[:80],
        )
        for one in found
    ]
    console().print(table(("at (UTC)", "id", "profile", "outcome", "ms", "kept", "query"), rows))


@app.command("show")
def show_decision(
    decision_id: Annotated[
        str, typer.Argument(metavar="ID", help=f"A correlation id, or a decision's id, {PREFIX_HELP}.")
    ],
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """Show everything about one decision, by its own id or its correlation id.

    Example: `orion-recall decisions show 875a5172`
    """

    async def get(settings: Settings) -> list[RecallDecisionV1]:
        async with open_postgres(settings) as pool:
            log = DecisionLog(pool)
            if found := await log.get(decision_id):
                return found
            name = await full_id("decision", decision_id, log.ids_starting)
            return [] if name is None else await log.get(name)

    found = asyncio.run(get(find(data)))
    if not found:
        print_error(
            "NotFound", f"there is no decision {decision_id!r} (the newest may be a moment late)", as_json=as_json
        )
        return 1
    if as_json:
        print_json({"decisions": [decision.model_dump(mode="json") for decision in found]})
        return 0
    for decision in found:
        _show(decision)
    return 0


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
        # By this name workers know that its locks are not theirs (memory/schema/0008_write_locks.sql).
        async with open_postgres(analyst_of(settings), name="sql") as pool:
            return await DecisionLog(pool).run_sql(sql, limit)

    result = asyncio.run(run(find(data)))
    if as_json:
        print_json({"columns": result.columns, "rows": result.rows, "truncated": result.truncated})
        return
    out = console()
    if result.rows:
        out.print(table(result.columns, result.rows))
    else:
        out.print(table(("column",), [(name,) for name in result.columns]))
        note("there is no row")
    if result.is_too_large:
        note(
            f"limited to {SQL_MOST_BYTES >> 20} MiB, which are {counted(len(result.rows), 'row')}: name fewer "
            "columns, or shorten them, as left(query, 200)"
        )
    elif result.truncated:
        note(f"limited to {counted(limit, 'row')}: --limit shows more")


@app.command("shadow")
def compare_shadow_profiles(
    profile: Annotated[str | None, typer.Option(help="Only the shadows of this profile.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Only later ones: {MOMENT_HELP}")] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare shadow profiles with the profiles that answered.

    Overlap is the share of the memories selected by either that both selected. A shadow reuses the vector of
    the question and sends no reply, so the times compare only roughly. For single queries: the view recall_shadows.

    Example: `orion-recall decisions shadow --since P7D`
    """
    after = moment("--since", since)

    async def compare(settings: Settings) -> list[Comparison]:
        async with open_postgres(settings) as pool:
            return await compare_shadows(pool, profile=profile, since=after)

    found = asyncio.run(compare(find(data)))
    if as_json:
        print_json({"comparisons": [asdict(one) for one in found]})
        return
    for one in found:
        rows = [
            ("queries", one.queries, one.queries),
            ("empty", f"{one.empty:.3f}", f"{one.shadow_empty:.3f}"),
            ("p50 ms", round(one.p50_ms, 1), round(one.shadow_p50_ms, 1)),
            ("p95 ms", round(one.p95_ms, 1), round(one.shadow_p95_ms, 1)),
        ]
        console().print(table(("", one.profile, f"{one.shadow_profile} (shadow)"), rows))
        overlap = "-" if one.overlap is None else f"{one.overlap:.3f}"
        console().print(Text(f"overlap {overlap}, the same best memory {one.same_first:.3f}\n"))
    if not found:
        note("no query was answered under a shadow profile")


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
    if as_json:
        listed = [asdict(part) for part in gone]
        print_json({"older_than": before, "dry_run": dry_run, "count": count, "gone": listed})
        return
    if gone:
        columns = ("profile", "outcome", "decisions", "oldest (UTC)", "newest (UTC)")
        rows = [(part.profile, part.outcome, part.count, part.oldest, part.newest) for part in gone]
        console().print(table(columns, rows))
    what = "would be deleted" if dry_run else "deleted"
    note(f"{counted(count, 'decision')} from before {before:%Y-%m-%d %H:%M:%S} UTC {what}")


def _show(decision: RecallDecisionV1) -> None:
    out = console()
    fields = decision.model_dump(
        mode="json", exclude={"sources", "selected", "stage_ms", "dropped", "selected_ids", "cascade"}
    )
    told = [(name, value) for name, value in fields.items() if value not in (None, "")]
    out.print(pairs(told))
    sources = [
        (name, one.status, one.count, one.stood_in, one.ms, one.error) for name, one in decision.sources.items()
    ]
    columns = ("source", "status", "hits", "hits are from", "ms", "error")
    out.print(table(columns, sources, title="\nWhat every source found"))
    kept = [
        (
            rank,
            one.id,
            one.source,
            round(one.score, 4),
            round(one.confidence.overall, 4) if one.confidence else None,
            ", ".join(f"{name} {part:.3f}" for name, part in one.parts.items()),
            ", ".join(f"{name} {rank}" for name, rank in one.ranks.items()),
        )
        for rank, one in enumerate(decision.selected, 1)
    ]
    columns = ("", "kept", "source", "score", "sure", "parts of the score", "ranks")
    out.print(table(columns, kept, title="\nWhat was kept"))
    if decision.cascade is not None:
        _show_cascade(decision.cascade)
    out.print(table(("dropped because", "hits"), list(decision.dropped.items()), title="\nWhat was left out"))
    out.print(table(("stage", "ms"), list(decision.stage_ms.items()), title="\nWhere the time went"))
    out.print(Text())


def _show_cascade(cascade: CascadeV1) -> None:
    steps = [
        (step.depth, step.layer, step.hits, step.confidence, step.ms, ", ".join(step.late), step.not_asked)
        for step in cascade.path
    ]
    columns = ("depth", "layer", "hits", "sure", "ms", "too late", "not asked because")
    console().print(table(columns, steps, title="\nThe cascade through the layers"))
    prose(visible(f"{cascade.trigger}; {cascade.reason}"))
