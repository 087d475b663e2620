"""`orion-recall decisions purge`: old decisions are deleted."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.moments import moment
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.decisions.retention import Deleted, count_older, purge_older
from orion_recall.errors import SettingsError
from orion_recall.settings import Settings


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
