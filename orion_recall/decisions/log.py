"""Reads the decision log: the latest decisions, one by its id, or the result of any SELECT."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
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
# A list does without what is by far the largest.
_COLUMNS_LISTED = _COLUMNS.replace("candidates", "NULL::jsonb AS candidates")
_NO_SUCH_ROLE_OR_NO_RIGHT = ("22023", "42501", "42704")

# As deploy/postgres/roles.sql has them. Of these an analyst cannot change `temp_file_limit`.
_ANALYST_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "temp_file_limit": "1GB",
}
# As there: by default anybody makes large objects and temporary tables. A replay makes temporary ones, as a worker.
_ANALYSTS_DO_NOT_WRITE: LiteralString = """
DO $$
DECLARE
    called regprocedure;
BEGIN
    FOR called IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (
            'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put', 'lo_truncate',
            'lo_truncate64', 'lo_unlink', 'lowrite') AND has_function_privilege('public', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', called);
    END LOOP;
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_worker') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO orion_worker', current_database());
    END IF;
END
$$
"""
# An analyst may have tables of their own.
_WITH_OTHERS: LiteralString = """
SELECT set_config('search_path', current_setting('search_path') || ', "$user", public', true)
"""
_LATEST: LiteralString = """
WHERE ($1::text IS NULL OR outcome = $1)
  AND ($2::text IS NULL OR profile = $2)
  AND ($3::timestamptz IS NULL OR created_at >= $3)
  AND shadow_of IS NULL
  AND ($5::text IS NULL OR tenant = $5)
ORDER BY created_at DESC, id
LIMIT $4
"""
_LATEST_IDS: LiteralString = "SELECT id FROM recall_decisions " + _LATEST  # noqa: S608 (two constants)
_STARTING: LiteralString = """
SELECT id FROM recall_decisions
WHERE id BETWEEN $1 AND $2 AND ($4::text IS NULL OR tenant = $4)
ORDER BY id LIMIT $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The newest decisions. `left_out` counts rows among them that this version cannot read."""

    decisions: Sequence[RecallDecisionV1]
    left_out: int = 0


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
        tenant: str | None = None,
    ) -> Latest:
        """The newest decisions that callers got and that meet every condition, without their candidates.

        Those that cannot be read count towards the limit.
        """
        async with borrow(self._pool, "reading decisions") as connection:
            rows = await connection.fetch(
                f"SELECT {_COLUMNS_LISTED} FROM recall_decisions {_LATEST}",  # noqa: S608
                outcome,
                profile,
                since,
                limit,
                tenant,
            )
        decisions = _readable(rows)
        return Latest(decisions=decisions, left_out=len(rows) - len(decisions))

    async def newest_ids(self, limit: int, *, profile: str | None = None, tenant: str | None = None) -> list[str]:
        """The ids of the newest decisions that callers got, newest first."""
        async with borrow(self._pool, "reading decisions") as connection:
            rows = await connection.fetch(_LATEST_IDS, None, profile, None, limit, tenant)
        return [str(row["id"]) for row in rows]

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

    async def of_ids(self, ids: Sequence[UUID]) -> list[RecallDecisionV1]:
        """The decisions of these ids, oldest first, without their candidates; those of another version left out."""
        async with borrow(self._pool, "reading decisions") as connection:
            select = f"SELECT {_COLUMNS_LISTED} FROM recall_decisions"  # noqa: S608 (names from our own model)
            rows = await connection.fetch(f"{select} WHERE id = ANY($1::uuid[]) ORDER BY created_at, id", list(ids))
        return _readable(rows)

    async def ids_starting(self, prefix: str, limit: int, *, tenant: str | None = None) -> list[str]:
        """The ids of decisions (of a tenant) that begin so, the equal one first; hyphens may be left out."""
        digits = prefix.replace("-", "").lower()
        if not digits or len(digits) > _UUID_DIGITS or not set(digits) <= set("0123456789abcdef"):
            return []
        first, last = UUID(digits.ljust(_UUID_DIGITS, "0")), UUID(digits.ljust(_UUID_DIGITS, "f"))
        async with borrow(self._pool, "reading decisions") as connection:
            rows = await connection.fetch(_STARTING, first, last, limit, tenant)
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
            # The server takes no writes while its disk is short; what it has can be read all the same.
            await connection.execute("SET default_transaction_read_only = off")
            await connection.execute(f"ALTER ROLE {ANALYST_ROLE} LOGIN CONNECTION LIMIT 10")
            for name, value in _ANALYST_SETTINGS.items():
                await connection.execute(f"ALTER ROLE {ANALYST_ROLE} SET {name} = '{value}'")
            await connection.execute(_ANALYSTS_DO_NOT_WRITE)
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


def _readable(rows: Sequence[Row]) -> list[RecallDecisionV1]:
    """Those of a list that can be read: one of another version must not close the list."""
    found: list[RecallDecisionV1] = []
    for row in rows:
        with contextlib.suppress(RecordError):
            found.append(_decision(row))
    return found


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
