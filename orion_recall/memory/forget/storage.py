"""Rewrites the files of Postgres, so that the bytes of forgotten rows are gone: tables, indexes, statistics, WAL.

A vacuum frees a row's room and leaves its bytes there; the text index keeps every word that it ever held; the
planner's statistics quote common values. So tables are rewritten as a whole. Of the embedded server's write-ahead
log the old files are removed, not reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import LiteralString, cast

from orion_recall.memory.forget.record import Report
from orion_recall.postgres.pool import POSTGRES_ERRORS, Connection, quote_identifier, reason, translate

TABLES: tuple[LiteralString, ...] = (
    "memories",
    "memory_history",
    "memory_requests",
    "memory_access",
    "memory_extractions",
    "memory_successions",
    "memory_succession_history",
    "memory_forget_ids",
    "memory_forgets",
    "entity_merges",
    "recall_feedback",
    "copy_requests",
    "recall_decisions",
)
_STATISTICS = "pg_catalog.pg_statistic"
_OLD_READERS_S = 10.0
_MOST_WAL_ROUNDS = 200

_SERVER: LiteralString = """
SELECT current_setting('is_superuser') = 'on' AND current_setting('cluster_name') = 'orion-recall' AS is_ours,
    current_setting('max_wal_size') AS max_wal, current_setting('checkpoint_timeout') AS checkpoint
"""
# Who sees rows as they were before: what is rewritten now would take those along.
_OLD_READERS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND age(backend_xmin) > age($1::text::xid)
"""


async def rewrite_storage(connection: Connection, report: Report) -> None:
    """Rewrites tables and log, as far as this login may, and adds to the report what was done.

    `connection` is no pool's, and its statements may take long.
    """
    with translate("rewriting tables"):
        server = await connection.fetchrow(_SERVER)
        assert server is not None
        await _wait_for_readers(connection, report)
        await connection.execute("SET lock_timeout = '10s'")
        failed = {table: why for table in TABLES if (why := await _rewritten(connection, table)) is not None}
        report.add(
            "Postgres: tables",
            what=f"{len(TABLES) - len(failed)} tables and their indexes rewritten",
            remains=f"bytes in free room of {', '.join(f'{one} ({why})' for one, why in failed.items())}"
            if failed
            else "",
            until="new rows are written over them" if failed else "",
        )
        if (why := await _rewritten(connection, _STATISTICS)) is not None:
            report.add(
                "Postgres: statistics",
                what="new ones were made of the tables",
                remains=f"values of the old ones, in dead rows of pg_statistic ({why})",
                until="autovacuum has freed them and they are written over",
            )
        if server["is_ours"]:
            await _remove_own_log(connection, report)
            return
        failure = await _failure_of(connection, "CHECKPOINT")
        report.add(
            "Postgres: write-ahead log",
            what="a checkpoint was made" if failure is None else f"no checkpoint ({failure})",
            remains="what was written until now",
            until=f"its server reuses the files: after up to {server['max_wal']} more of log, and a checkpoint "
            f"every {server['checkpoint']}; archives and replicas as their operator has set",
        )


async def _wait_for_readers(connection: Connection, report: Report) -> None:
    xid = await connection.fetchval("SELECT pg_current_xact_id()::text")
    ends = time.monotonic() + _OLD_READERS_S
    while readers := await connection.fetchval(_OLD_READERS, str(int(xid) % (1 << 32))):
        if time.monotonic() > ends:
            report.unfinished.append(
                f"{readers} long transactions see the rows as they were, so Postgres keeps them: end those"
            )
            return
        await asyncio.sleep(0.2)


async def _rewritten(connection: Connection, table: str) -> str | None:
    """Why the table got no new file; None when it did. Without the right Postgres only warns."""
    name = ".".join(map(quote_identifier, table.split(".")))
    analyze = "" if table == _STATISTICS else ", ANALYZE"
    before = await connection.fetchval("SELECT pg_relation_filenode($1::regclass)", table)
    why = await _failure_of(connection, f"VACUUM (FULL{analyze}) {name}")
    if why is None and before == await connection.fetchval("SELECT pg_relation_filenode($1::regclass)", table):
        why = "this login does not own it: let the owner run it again"
    if why is not None and analyze:
        why = await _failure_of(connection, f"VACUUM (ANALYZE) {name}") or why
    return why


async def _remove_own_log(connection: Connection, report: Report) -> None:
    """The embedded server's log: every file that is there now is left behind, and removed."""
    before = await _segments(connection)
    async with _wal_not_reused(connection):
        for _ in range(min(len(before) + 1, _MOST_WAL_ROUNDS)):
            await connection.execute("SELECT pg_logical_emit_message(false, 'orion-recall', 'forget')")
            await connection.execute("SELECT pg_switch_wal()")
        await connection.execute("CHECKPOINT")
        await connection.execute("CHECKPOINT")
        left = before & await _segments(connection)
    report.add(
        "Postgres: write-ahead log",
        len(before) - len(left),
        what="of its files removed",
        remains=f"{len(left)} of its files" if left else "",
        until="the next checkpoints, five minutes at most each" if left else "",
    )


async def _segments(connection: Connection) -> set[str]:
    rows = await connection.fetch("SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'")
    return {row["name"] for row in rows}


@contextlib.asynccontextmanager
async def _wal_not_reused(connection: Connection) -> AsyncGenerator[None]:
    """While the block runs, old log files are removed, not renamed with what they hold."""
    await connection.execute("ALTER SYSTEM SET wal_recycle = off")
    await connection.execute("SELECT pg_reload_conf()")
    await asyncio.sleep(0.2)  # the checkpointer reads its settings when it wakes
    try:
        yield
    finally:
        await connection.execute("ALTER SYSTEM RESET wal_recycle")
        await connection.execute("SELECT pg_reload_conf()")


async def _failure_of(connection: Connection, statement: str) -> str | None:
    """Why Postgres did not carry the statement out; None when it did."""
    try:
        await connection.execute(cast("LiteralString", statement))
    except POSTGRES_ERRORS as error:
        return reason(error)
    return None
