"""`orion-recall decisions sql`: a SELECT over the decision log."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from orion_recall.cli.connect.addresses import DataFolder, analyst_of, find, open_postgres
from orion_recall.cli.output import JsonFlag, console, counted, note, print_json, table
from orion_recall.decisions.log import DecisionLog
from orion_recall.decisions.sql import NO_RIGHT, SQL_MOST_BYTES, SqlResult
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import sqlstate
from orion_recall.settings import Settings


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
    if as_json:
        print_json({"columns": result.columns, "rows": result.rows, "truncated": result.truncated})
        return
    out = console()
    if result.rows:
        out.print(table(result.columns, result.rows))
    else:
        out.print(table(("columns of the result",), [(name,) for name in result.columns]))
        note("there is no row; these are the columns that a row would have")
    if result.is_too_large:
        note(
            f"limited to {SQL_MOST_BYTES >> 20} MiB, which are {counted(len(result.rows), 'row')}: name fewer "
            "columns, or shorten them, as left(query, 200)"
        )
    elif result.truncated:
        note(f"limited to {counted(limit, 'row')}: --limit shows more")
