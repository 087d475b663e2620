"""Reads the decision log: the latest decisions, one by its id, or the result of any SELECT."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from pydantic import ValidationError

from orion_recall.contracts import RecallDecisionV1, describe
from orion_recall.decisions.sql import SQL_TIMEOUT_S, SqlResult, fetch_bounded, refusal
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
_UUID_DIGITS = 32

_COLUMNS = ", ".join(RecallDecisionV1.model_fields)
_NO_SUCH_ROLE_OR_NO_RIGHT = ("22023", "42501", "42704")

# As deploy/postgres/roles.sql has them. Of these an analyst cannot change `temp_file_limit`.
_ANALYST_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "temp_file_limit": "1GB",
}
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
        """The first `limit` rows of one statement that only reads, run as the analysts' role; 8 MiB at most.

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
                return await fetch_bounded(connection, storable(sql), limit)
            except asyncpg.PostgresError as error:
                if (sqlstate(error) or "").startswith(("08", "53", "57P")):
                    raise
                raise RecordError(refusal(error, sql)) from error


async def let_analysts_in(dsn: str) -> None:
    """Let the analysts' role log in to an embedded server, whose socket only its owner can reach.

    SQL that may not read memories must not run under a login that could: a role can be reset, a login cannot.
    """
    connection = await open_connection(dsn, name="analysts", statement_timeout_ms=5000)
    try:
        with translate("letting analysts in"):
            await connection.execute(f"ALTER ROLE {ANALYST_ROLE} LOGIN CONNECTION LIMIT 10")
            for name, value in _ANALYST_SETTINGS.items():
                await connection.execute(f"ALTER ROLE {ANALYST_ROLE} SET {name} = '{value}'")
    finally:
        await close_connection(connection)


async def _become_analyst(connection: Connection) -> None:
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE {ANALYST_ROLE}")
    except asyncpg.PostgresError as error:
        if sqlstate(error) not in _NO_SUCH_ROLE_OR_NO_RIGHT:
            raise


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
