"""Rewrites the files of Postgres, so that the bytes of forgotten rows are gone: tables, indexes, statistics, WAL.

A vacuum frees a row's room and leaves its bytes there; the text index keeps every word that it ever held; the
planner's statistics quote common values. So tables are rewritten as a whole, where they are small enough for the
lock that this takes. Of the embedded server's write-ahead log the old files are removed, not reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import LiteralString, cast

from orion_recall.memory.forget.record import Report
from orion_recall.postgres.pool import POSTGRES_ERRORS, Connection, quote_identifier, reason, translate

FULL_BELOW_BYTES = 256 << 20
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
_LOCK_WAIT: LiteralString = "SET lock_timeout = '10s'"
_OLD_READERS_S = 10.0
_MOST_WAL_ROUNDS = 200

_SIZE: LiteralString = "SELECT pg_total_relation_size($1::regclass)"
_FILE: LiteralString = "SELECT pg_relation_filenode($1::regclass)"
_SERVER: LiteralString = """
SELECT current_setting('is_superuser') = 'on' AS superuser, current_setting('cluster_name') AS cluster,
    current_setting('max_wal_size') AS max_wal, current_setting('checkpoint_timeout') AS checkpoint,
    current_setting('server_version_num')::int AS version
"""
# Who sees rows as they were before: what is rewritten now would take those along.
_OLD_READERS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND age(backend_xmin) > age($1::text::xid)
"""


class RecordStorage:
    """Rewrites the record's tables. `connection` is no pool's, and its statements may take long."""

    def __init__(self, connection: Connection, report: Report, *, full: bool = False) -> None:
        self._connection, self._report, self._full = connection, report, full

    async def rewrite(self) -> None:
        """Rewrites the tables and the log, as far as this login may, and adds to the report what was done."""
        with translate("rewriting tables"):
            server = await self._connection.fetchrow(_SERVER)
            assert server is not None
            is_ours = bool(server["superuser"]) and server["cluster"] == "orion-recall"
            await self._wait_for_readers()
            await self._connection.execute(_LOCK_WAIT)
            await self._tables()
            statistics_kept = await self._statistics()
        if statistics_kept:
            self._report.add(
                "Postgres: statistics",
                what="new ones were made of the tables",
                remains=f"values of the old ones, in dead rows of pg_statistic ({statistics_kept})",
                until="autovacuum has freed them and they are written over",
            )
        if is_ours:
            await self._own_log()
        else:
            await self._log_of_others(server["max_wal"], server["checkpoint"])

    async def _wait_for_readers(self) -> None:
        xid = await self._connection.fetchval("SELECT pg_current_xact_id()::text")
        ends = time.monotonic() + _OLD_READERS_S
        while readers := await self._connection.fetchval(_OLD_READERS, str(int(xid) % (1 << 32))):
            if time.monotonic() > ends:
                self._report.unfinished.append(
                    f"{readers} long transactions see the rows as they were, so Postgres keeps them: end those"
                )
                return
            await asyncio.sleep(0.2)

    async def _tables(self) -> None:
        whole: list[str] = []
        in_part: list[str] = []
        for table in TABLES:
            size = int(await self._connection.fetchval(_SIZE, table))
            name = quote_identifier(table)
            if self._full or size <= FULL_BELOW_BYTES:
                failed = await self._rewritten(f"VACUUM (FULL, ANALYZE) {name}", table)
                if failed is None:
                    whole.append(table)
                    continue
            else:
                failed = f"{size >> 20} MB: --full rewrites it, and locks it meanwhile"
            again = await self._tried(f"VACUUM (ANALYZE) {name}")
            in_part.append(f"{table} ({again or failed})")
        self._report.add(
            "Postgres: tables",
            what=f"{len(whole)} tables and their indexes rewritten",
            remains=f"bytes in free room of {', '.join(in_part)}" if in_part else "",
            until="new rows are written over them, or a run with --full" if in_part else "",
        )

    async def _statistics(self) -> str | None:
        """Why old statistics could not be removed; None when they were."""
        return await self._rewritten("VACUUM (FULL) pg_catalog.pg_statistic", "pg_catalog.pg_statistic")

    async def _own_log(self) -> None:
        """The embedded server's log: every file that is there now is left behind, and removed."""
        with translate("rewriting the write-ahead log"):
            before = await self._segments()
            async with self._not_reused():
                for _ in range(min(len(before) + 1, _MOST_WAL_ROUNDS)):
                    await self._connection.execute(
                        "SELECT pg_logical_emit_message(false, 'orion-recall', 'forget')"
                    )
                    await self._connection.execute("SELECT pg_switch_wal()")
                await self._connection.execute("CHECKPOINT")
                await self._connection.execute("CHECKPOINT")
                left = set(before) & set(await self._segments())
        self._report.add(
            "Postgres: write-ahead log",
            len(before) - len(left),
            what="of its files removed",
            remains=f"{len(left)} of its files" if left else "",
            until="the next checkpoints, five minutes at most each" if left else "",
        )

    async def _log_of_others(self, most: str, every: str) -> None:
        failed = await self._tried("CHECKPOINT")
        done = "a checkpoint was made" if failed is None else f"no checkpoint ({failed})"
        self._report.add(
            "Postgres: write-ahead log",
            what=done,
            remains="what was written until now",
            until=f"its server reuses the files: after up to {most} more of log, and a checkpoint every {every}; "
            "archives and replicas as their operator has set",
        )

    async def _segments(self) -> Sequence[str]:
        rows = await self._connection.fetch("SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'")
        return [row["name"] for row in rows]

    @contextlib.asynccontextmanager
    async def _not_reused(self) -> AsyncGenerator[None]:
        """While the block runs, old log files are removed, not renamed with what they hold."""
        await self._connection.execute("ALTER SYSTEM SET wal_recycle = off")
        await self._connection.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(0.2)  # the checkpointer reads its settings when it wakes
        try:
            yield
        finally:
            await self._connection.execute("ALTER SYSTEM RESET wal_recycle")
            await self._connection.execute("SELECT pg_reload_conf()")

    async def _rewritten(self, statement: str, table: str) -> str | None:
        """Why the table got no new file; None when it did. Without the right Postgres only warns."""
        before = await self._connection.fetchval(_FILE, table)
        if (failed := await self._tried(statement)) is not None:
            return failed
        is_new = before != await self._connection.fetchval(_FILE, table)
        return None if is_new else "this login does not own it: let the owner run it again"

    async def _tried(self, statement: str) -> str | None:
        """Why Postgres did not carry the statement out; None when it did."""
        try:
            await self._connection.execute(cast("LiteralString", statement))
        except POSTGRES_ERRORS as error:
            return reason(error)
        return None
