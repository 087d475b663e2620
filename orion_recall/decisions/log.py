"""Reads the decision log: the latest decisions, one by its id, an overview, the rows of any SELECT."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
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


async def fetch_bounded(connection: Connection, sql: str, limit: int) -> SqlResult:
    """The first rows of a statement: `limit` of them at most, and no more than `SQL_MOST_BYTES`.

    The server measures the rows, so that one of a gigabyte never comes here. RecordError when the first row alone
    is larger, or when the statement gives no rows.
    """
    try:
        statement = await connection.prepare(sql)
    except asyncpg.InternalClientError as error:
        raise RecordError(
            "the SQL was refused: a column has no type of its own (anyarray): cast it, as most_common_vals::text"
        ) from error
    columns = tuple(attribute.name for attribute in statement.get_attributes())
    if not columns:
        raise RecordError("the SQL was refused: it gives no rows. Only statements that read are run here")
    is_measured = _IN_FROM.match(sql) is not None
    if is_measured:
        try:
            statement = await connection.prepare(_measured(sql, len(columns)))
        except asyncpg.PostgresSyntaxError as error:
            raise RecordError(
                "the SQL was refused: it cannot stand inside another statement, which measures its rows. Leave out "
                "what comes after its semicolon"
            ) from error
    cursor = await statement.cursor()
    rows: list[tuple[Any, ...]] = [tuple(row) for row in await cursor.fetch(limit + 1)]
    fitting = [row[:-1] for row in rows if row[-1]] if is_measured else rows
    is_too_large = len(fitting) < len(rows) and len(fitting) <= limit
    if is_too_large and not fitting:
        raise RecordError(
            f"the SQL was refused: its first row alone is larger than {SQL_MOST_BYTES} bytes. Name fewer columns, "
            "or shorten them, as left(query, 200)"
        )
    truncated = is_too_large or len(rows) > limit
    return SqlResult(columns=columns, rows=tuple(fitting[:limit]), truncated=truncated, is_too_large=is_too_large)


def _measured(sql: str, count: int) -> str:
    """The statement with a last column that says whether all rows up to this one fit; others come without values.

    Text is written out only where its stored form, which may be compressed, is not too large already.
    """
    names = [f"c{number}" for number in range(count)]
    listed = ", ".join(names)
    kept = ", ".join(f"CASE WHEN total <= {SQL_MOST_BYTES} THEN {name} END" for name in names)
    stored = " + ".join(f"coalesce(pg_column_size({name}), 0)::bigint" for name in names)
    size = f"CASE WHEN {stored} > {SQL_MOST_BYTES} THEN {stored} ELSE octet_length(r::text) END"
    inner = sql.strip().rstrip(";")
    return (
        f"SELECT {kept}, total <= {SQL_MOST_BYTES} FROM (SELECT {listed}, sum({size}) OVER "  # noqa: S608 (names of ours)
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
            "recall_never_selected are for members of orion_reader and for the schema's owner, with psql and the "
            "address that `orion-recall status` prints"
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


ANALYST_ROLE = "orion_analyst"
_UUID_DIGITS = 32

_SELECT = f"SELECT {', '.join(RecallDecisionV1.model_fields)} FROM recall_decisions"  # noqa: S608 (names of ours)
# A list does without what is by far the largest.
_SELECT_LISTED = _SELECT.replace("candidates", "NULL::jsonb AS candidates")
_NO_SUCH_ROLE_OR_NO_RIGHT = ("22023", "42501", "42704")

# As deploy/postgres/roles.sql has them. Of these an analyst cannot change `temp_file_limit`.
_ANALYST_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "60s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    "temp_file_limit": "1GB",
}
# As there: by default anybody makes large objects and temporary tables, and writes log or uses up transaction ids
# in a transaction that is read-only. A replay makes temporary tables, as a worker; `memory forget` asks for an id.
_ANALYSTS_DO_NOT_WRITE: LiteralString = """
DO $$
DECLARE
    called regprocedure;
BEGIN
    FOR called IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (
            'lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put', 'lo_truncate',
            'lo_truncate64', 'lo_unlink', 'lowrite',
            'pg_logical_emit_message', 'pg_current_xact_id', 'txid_current')
            AND has_function_privilege('public', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', called);
    END LOOP;
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'orion_worker') THEN
        EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO orion_worker', current_database());
        GRANT EXECUTE ON FUNCTION pg_current_xact_id() TO orion_worker;
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
  AND ($6::text IS NULL OR verb = $6)
  AND ($7::uuid IS NULL OR created_at <= (SELECT created_at FROM recall_decisions WHERE id = $7))
  AND ($7::uuid IS NULL OR id > $7 OR created_at < (SELECT created_at FROM recall_decisions WHERE id = $7))
ORDER BY created_at DESC, id
LIMIT $4
"""
_STARTING: LiteralString = """
SELECT id FROM recall_decisions
WHERE id BETWEEN $1 AND $2 AND ($4::text IS NULL OR tenant = $4)
ORDER BY id LIMIT $3
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
        tenant: str | None = None,
        verb: str | None = None,
        before: UUID | None = None,
    ) -> tuple[list[RecallDecisionV1], int]:
        """The newest decisions that callers got and that meet every condition, without their candidates.

        `before`: only those that come after this one in the list. Those that this version cannot read count towards
        the limit; their number comes second.
        """
        wanted = outcome, profile, since, limit, tenant, verb, before
        rows = await self._fetch(f"{_SELECT_LISTED} {_LATEST}", *wanted)
        decisions = _readable(rows)
        return decisions, len(rows) - len(decisions)

    async def newest_ids(self, limit: int, *, profile: str | None = None, tenant: str | None = None) -> list[str]:
        """The ids of the newest decisions that callers got, newest first."""
        wanted = None, profile, None, limit, tenant, None, None
        rows = await self._fetch(f"SELECT id FROM recall_decisions {_LATEST}", *wanted)  # noqa: S608
        return [str(row["id"]) for row in rows]

    async def get(self, id_or_corr_id: str) -> list[RecallDecisionV1]:
        """The decision of that id, else all of that correlation id, newest first; empty when there is none."""
        rows: Sequence[Row] = []
        with contextlib.suppress(ValueError):
            rows = await self._fetch(f"{_SELECT} WHERE id = $1", UUID(id_or_corr_id))
        if not rows:
            named = "WHERE corr_id = $1 ORDER BY created_at DESC, id"
            rows = await self._fetch(f"{_SELECT} {named}", storable(id_or_corr_id))
        return [_decision(row) for row in rows]

    async def of_ids(self, ids: Sequence[UUID]) -> list[RecallDecisionV1]:
        """The decisions of these ids, oldest first, without their candidates; those of another version left out."""
        named = "WHERE id = ANY($1::uuid[]) ORDER BY created_at, id"
        return _readable(await self._fetch(f"{_SELECT_LISTED} {named}", list(ids)))

    async def ids_starting(self, prefix: str, limit: int, *, tenant: str | None = None) -> list[str]:
        """The ids of decisions (of a tenant) that begin so, the equal one first; hyphens may be left out."""
        digits = prefix.replace("-", "").lower()
        if not digits or len(digits) > _UUID_DIGITS or not set(digits) <= set("0123456789abcdef"):
            return []
        first, last = UUID(digits.ljust(_UUID_DIGITS, "0")), UUID(digits.ljust(_UUID_DIGITS, "f"))
        return [str(row["id"]) for row in await self._fetch(_STARTING, first, last, limit, tenant)]

    async def _fetch(self, statement: str, *values: object) -> Sequence[Row]:
        async with borrow(self._pool, "reading decisions") as connection:
            return await connection.fetch(statement, *values)

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
            try:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL ROLE {ANALYST_ROLE}")
            except asyncpg.PostgresError as error:
                if sqlstate(error) not in _NO_SUCH_ROLE_OR_NO_RIGHT:
                    raise
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
            await connection.execute(f"ALTER ROLE {ANALYST_ROLE} RESET ALL")  # a role may set its own defaults
            for name, value in _ANALYST_SETTINGS.items():
                await connection.execute(f"ALTER ROLE {ANALYST_ROLE} SET {name} = '{value}'")
            await connection.execute(_ANALYSTS_DO_NOT_WRITE)
    finally:
        await close_connection(connection)


def _readable(rows: Sequence[Row]) -> list[RecallDecisionV1]:
    """Those of a list that can be read: one of another version must not close the list."""
    found: list[RecallDecisionV1] = []
    for row in rows:
        with contextlib.suppress(RecordError):
            found.append(_decision(row))
    return found


def _decision(row: Row) -> RecallDecisionV1:
    values = {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}
    try:
        return RecallDecisionV1.model_validate(values)
    except ValidationError as error:
        raise RecordError(
            f"the decision {values['id']} was written by another version: {describe(error)}"
        ) from error


_OF: LiteralString = """
FROM recall_decisions AS d
WHERE created_at >= $1 AND ($2::text IS NULL OR tenant = $2) AND shadow_of IS NULL
"""
_SEARCHED: LiteralString = "FILTER (WHERE outcome IN ('ok', 'empty', 'degraded', 'failed'))"
_OUTCOMES: LiteralString = f"SELECT outcome, count(*) AS count {_OF} GROUP BY 1 ORDER BY 2 DESC, 1"
_PROFILES: LiteralString = f"""
SELECT profile, count(*) AS count,
       avg((outcome = 'empty')::int)::float8 AS empty, avg((outcome = 'degraded')::int)::float8 AS degraded,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) {_SEARCHED} AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) {_SEARCHED} AS p95_ms
{_OF} GROUP BY 1 ORDER BY 2 DESC, 1
"""
# The stages are those of the newest decisions: of millions they would take minutes.
_STAGES: LiteralString = f"""
SELECT stage.key AS stage, count(*) AS count,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY json_double(stage.value)) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY json_double(stage.value)) AS p95_ms
FROM (SELECT stage_ms {_OF} ORDER BY created_at DESC LIMIT 20000) AS one
CROSS JOIN LATERAL jsonb_each(one.stage_ms) AS stage
WHERE json_double(stage.value) IS NOT NULL AND stage.key <> 'total'
GROUP BY 1 ORDER BY 3 DESC, 1
"""  # noqa: S608 (texts of ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The decisions since a time, without those of shadow profiles.

    `profiles` have count, the shares empty and degraded, p50_ms and p95_ms of those that searched; `stages` have
    count, p50_ms and p95_ms.
    """

    outcomes: Mapping[Outcome, int]
    profiles: Sequence[Row]
    stages: Sequence[Row]

    @property
    def count(self) -> int:
        return sum(self.outcomes.values())


async def overview_since(pool: Pool, since: datetime, *, tenant: str | None = None) -> Overview:
    """The decisions since a time, of one tenant or of all. RecordError when Postgres is away."""
    async with borrow(pool, "reading decisions") as connection:
        outcomes = await connection.fetch(_OUTCOMES, since, tenant)
        return Overview(
            outcomes={row["outcome"]: row["count"] for row in outcomes},
            profiles=await connection.fetch(_PROFILES, since, tenant),
            stages=await connection.fetch(_STAGES, since, tenant),
        )
