"""Reads the decision log: the latest decisions, one by its id, or the result of any SELECT."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from pydantic import ValidationError

from orion_recall.contracts import RecallDecisionV1, describe
from orion_recall.errors import RecordError
from orion_recall.postgres.pool import (
    Connection,
    Pool,
    Row,
    borrow,
    close_connection,
    open_connection,
    sqlstate,
    translate,
)
from orion_recall.text.normal import storable
from orion_recall.values import Outcome

ANALYST_ROLE = "orion_analyst"
SQL_TIMEOUT_S = 30
_UUID_DIGITS = 32

_COLUMNS = ", ".join(RecallDecisionV1.model_fields)
_NO_SUCH_ROLE_OR_NO_RIGHT = ("22023", "42501", "42704")

# An analyst may have tables of their own.
_WITH_OTHERS: LiteralString = """
SELECT set_config('search_path', current_setting('search_path') || ', "$user", public', true)
"""
_LATEST: LiteralString = """
WHERE ($1::text IS NULL OR outcome = $1)
  AND ($2::text IS NULL OR profile = $2)
  AND ($3::timestamptz IS NULL OR created_at >= $3)
  AND ($5::boolean OR shadow_of IS NULL)
ORDER BY created_at DESC, id
LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlResult:
    """The result of a statement: column names, and rows up to the limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


class DecisionLog:
    """The decision log of one database. Every question raises RecordError when Postgres is away."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def latest(
        self,
        limit: int = 20,
        *,
        outcome: Outcome | None = None,
        profile: str | None = None,
        since: datetime | None = None,
        shadows: bool = False,
    ) -> list[RecallDecisionV1]:
        """The newest decisions that meet every condition given; with `shadows` also those of shadow recalls."""
        async with borrow(self._pool, "reading decisions") as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS} FROM recall_decisions {_LATEST}",  # noqa: S608 (names from our own model)
                outcome,
                profile,
                since,
                limit,
                shadows,
            )
        return [_decision(row) for row in rows]

    async def get(self, id_or_corr_id: str) -> list[RecallDecisionV1]:
        """The decision of that id, else all of that correlation id, newest first; empty when there is none."""
        async with borrow(self._pool, "reading decisions") as connection:
            select = f"SELECT {_COLUMNS} FROM recall_decisions"  # noqa: S608 (names from our own model)
            rows: list[Row] = []
            if (decision_id := _uuid(id_or_corr_id)) is not None:
                rows = await connection.fetch(f"{select} WHERE id = $1", decision_id)
            if not rows:
                rows = await connection.fetch(
                    f"{select} WHERE corr_id = $1 ORDER BY created_at DESC, id", storable(id_or_corr_id)
                )
        return [_decision(row) for row in rows]

    async def ids_starting(self, prefix: str, limit: int) -> list[str]:
        """The ids of decisions that begin so, the equal one first; a prefix without hyphens will do as well."""
        digits = prefix.replace("-", "").lower()
        if not digits or len(digits) > _UUID_DIGITS or not set(digits) <= set("0123456789abcdef"):
            return []
        first, last = UUID(digits.ljust(_UUID_DIGITS, "0")), UUID(digits.ljust(_UUID_DIGITS, "f"))
        async with borrow(self._pool, "reading decisions") as connection:
            rows = await connection.fetch(
                "SELECT id FROM recall_decisions WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3",
                first,
                last,
                limit,
            )
        return [str(row["id"]) for row in rows]

    async def run_sql(self, sql: str, limit: int = 1000) -> SqlResult:
        """The first `limit` rows of one statement that only reads, run as the analysts' role.

        The role is set when it exists and this login may set it; the transaction is read-only in any case. This
        prevents accidents. It is no protection against a login with more rights: give people a login of their own
        that is a member of the role.
        RecordError: the statement is refused (with its place in the SQL), is too slow, or Postgres is away.
        """
        async with borrow(self._pool, "running SQL") as connection, connection.transaction(readonly=True):
            await connection.execute(
                f"SET LOCAL statement_timeout = '{SQL_TIMEOUT_S}s'; SET LOCAL default_transaction_read_only = on"
            )
            await connection.execute(_WITH_OTHERS)
            await _become_analyst(connection)
            try:
                return await _fetch(connection, storable(sql), limit)
            except asyncpg.PostgresError as error:
                if (sqlstate(error) or "").startswith(("08", "53", "57P")):
                    raise
                raise RecordError(_explain(error, sql)) from error


async def let_analysts_in(dsn: str) -> None:
    """Let the analysts' role log in to an embedded server, whose socket only its owner can reach.

    SQL that may not read memories must not run under a login that could: a role can be reset, a login cannot.
    """
    connection = await open_connection(dsn, name="analysts", statement_timeout_ms=5000)
    try:
        with translate("letting analysts in"):
            await connection.execute(f"ALTER ROLE {ANALYST_ROLE} LOGIN")
    finally:
        await close_connection(connection)


async def _become_analyst(connection: Connection) -> None:
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE {ANALYST_ROLE}")
    except asyncpg.PostgresError as error:
        if sqlstate(error) not in _NO_SUCH_ROLE_OR_NO_RIGHT:
            raise


async def _fetch(connection: Connection, sql: str, limit: int) -> SqlResult:
    statement = await connection.prepare(sql)
    columns = tuple(attribute.name for attribute in statement.get_attributes())
    if not columns:
        raise RecordError("the SQL was refused: it gives no rows. Only statements that read are run here")
    cursor = await statement.cursor()
    rows = await cursor.fetch(limit + 1)
    return SqlResult(columns=columns, rows=tuple(tuple(row) for row in rows[:limit]), truncated=len(rows) > limit)


def _explain(error: asyncpg.PostgresError, sql: str) -> str:
    """The server's message with line and column, and its hint."""
    state = sqlstate(error)
    if state == "57014":
        return f"the SQL was stopped after {SQL_TIMEOUT_S} s: ask for fewer rows or a shorter time"
    message = str(error).partition("\n")[0]
    if state == "25006":
        message = f"it writes ({message}). Only statements that read are run here"
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


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _decision(row: Row) -> RecallDecisionV1:
    values = dict(row.items())
    values["id"] = str(values["id"])
    if values["shadow_of"] is not None:
        values["shadow_of"] = str(values["shadow_of"])
    try:
        return RecallDecisionV1.model_validate(values)
    except ValidationError as error:
        raise RecordError(
            f"the decision {values['id']} was written by another version: {describe(error)}"
        ) from error
