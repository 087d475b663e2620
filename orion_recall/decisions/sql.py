"""SQL of people over the decision log: results bounded in rows and bytes, and refusals with their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Connection, sqlstate

SQL_TIMEOUT_S = 30
NO_RIGHT = "42501"
_READERS = (
    "feedback, decisions and memories are read by a login with the rights of orion_worker or of the schema's "
    "owner; orion_analyst reads decisions alone. Let ORION_POSTGRES_DSN name such a login"
)
SQL_MOST_BYTES = 8 << 20
"""Bytes of a result, as text: what is beyond stays on the server."""

# What may stand in a FROM; others (EXPLAIN, SHOW) give few and short rows.
_IN_FROM = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlResult:
    """The result of a statement: column names, and rows up to the limits.

    `truncated`: there are more rows. `is_too_large`: they were left out because of their size.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    is_too_large: bool = False


async def fetch_bounded(
    connection: Connection, sql: str, limit: int, *, most_bytes: int = SQL_MOST_BYTES
) -> SqlResult:
    """The first rows of a statement: `limit` of them at most, and no more than `most_bytes`.

    The server measures the rows, so that one of a gigabyte never comes here. RecordError when the first row alone
    is larger, or when the statement gives no rows.
    """
    statement = await connection.prepare(sql)
    columns = tuple(attribute.name for attribute in statement.get_attributes())
    if not columns:
        raise RecordError("the SQL was refused: it gives no rows. Only statements that read are run here")
    is_measured = _IN_FROM.match(sql) is not None
    if is_measured:
        try:
            statement = await connection.prepare(_measured(sql, len(columns), most_bytes))
        except asyncpg.PostgresSyntaxError as error:
            raise RecordError(
                "the SQL was refused: it cannot stand inside another statement, which measures its rows. Leave out "
                "what comes after its semicolon"
            ) from error
    cursor = await statement.cursor()
    rows: list[Sequence[Any]] = [tuple(row) for row in await cursor.fetch(limit + 1)]
    if not is_measured:
        return SqlResult(columns=columns, rows=_shown(rows, limit), truncated=len(rows) > limit)
    fitting = [row[:-1] for row in rows if row[-1]]
    if len(rows) > len(fitting) and len(fitting) <= limit:
        if not fitting:
            raise RecordError(
                f"the SQL was refused: its first row alone is larger than {most_bytes} bytes. Name fewer columns, "
                "or shorten them, as left(query, 200)"
            )
        return SqlResult(columns=columns, rows=_shown(fitting, limit), truncated=True, is_too_large=True)
    return SqlResult(columns=columns, rows=_shown(fitting, limit), truncated=len(rows) > limit)


def _shown(rows: Sequence[Sequence[Any]], limit: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in rows[:limit])


def _measured(sql: str, count: int, most_bytes: int) -> str:
    """The statement with a last column that says whether all rows up to this one fit; others come without values.

    Text is written out only where its stored form, which may be compressed, is not too large already.
    """
    names = [f"c{number}" for number in range(count)]
    listed = ", ".join(names)
    kept = ", ".join(f"CASE WHEN total <= {most_bytes} THEN {name} END" for name in names)
    stored = " + ".join(f"coalesce(pg_column_size({name}), 0)::bigint" for name in names)
    size = f"CASE WHEN {stored} > {most_bytes} THEN {stored} ELSE octet_length(r::text) END"
    inner = sql.strip().rstrip(";")
    return (
        f"SELECT {kept}, total <= {most_bytes} FROM (SELECT {listed}, sum({size}) OVER "  # noqa: S608 (names of ours)
        f"(ROWS UNBOUNDED PRECEDING) AS total FROM (\n{inner}\n) AS r ({listed})) AS measured"
    )


def with_advice(error: RecordError, advice: str = _READERS) -> RecordError:
    """The error; where the login lacks a right, with the one that is needed."""
    if error.__cause__ is None or sqlstate(error.__cause__) != NO_RIGHT:
        return error
    return RecordError(f"{error}: {advice}")


def refusal(error: asyncpg.PostgresError, sql: str) -> str:
    """The server's message with line and column, and its hint."""
    state = sqlstate(error)
    if state == "57014":
        return f"the SQL was stopped after {SQL_TIMEOUT_S} s: ask for fewer rows or a shorter time"
    message = str(error).partition("\n")[0]
    if state == "25006":
        message = f"it writes ({message}). Only statements that read are run here"
    elif state == NO_RIGHT:
        message += (
            ". SQL runs here as orion_analyst, who reads decisions and no texts; recall_texts and "
            "recall_never_selected are for members of orion_reader and for the schema's owner, with psql"
        )
    elif "multiple commands" in message:
        message = "it holds several statements. One at a time"
    position = getattr(error, "position", None)
    where = ""
    if isinstance(position, str) and position.isdecimal():
        before = sql[: int(position) - 1]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        where = f" at line {line}, column {column}"
    hint = getattr(error, "hint", None)
    return f"the SQL was refused{where}: {message}" + (f" ({hint})" if isinstance(hint, str) else "")
