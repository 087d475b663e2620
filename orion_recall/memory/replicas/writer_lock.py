"""Whose turn it is to write to a copy that several workers share: one at a time, by a lock in Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Connection, open_connection, translate
from orion_recall.text.normal import number_of

log = logging.getLogger("orion_recall.memory")

_ANSWER_MS = 5000
_GOODBYE_S = 1.0

# An advisory lock of a transaction, not of a session, so that a pooler cannot give its connection to others. The
# transaction holds no snapshot, and so no vacuum back; the server may not end it for being idle, and finds out
# within half a minute when the machine that holds it has vanished.
_BEGIN = """
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
"""


class Turn:
    """The turn at one copy, on a connection of its own: whoever dies has lost it, and another takes over."""

    def __init__(self, dsn: str, *, kind: str, copy: str) -> None:
        self._dsn, self._name = dsn, f"the {kind} {copy}"
        self._lock = number_of(kind, copy)
        self._connection: Connection | None = None
        self._is_mine = False

    @property
    def was_mine(self) -> bool:
        """Whether this process had the turn when it was last asked."""
        return self._is_mine

    async def is_mine(self) -> bool:
        """Whether this process may write now; takes the turn when nobody has it. RecordError without Postgres."""
        try:
            with translate("taking turns"):
                return await self._take_or_keep()
        except RecordError:
            await self.end()
            raise

    async def end(self) -> None:
        """Let another one write."""
        connection, self._connection = self._connection, None
        if self._is_mine:
            log.debug("no longer writing to %s", self._name)
        self._is_mine = False
        if connection is None:
            return
        try:
            with contextlib.suppress(RecordError), translate():
                async with asyncio.timeout(_GOODBYE_S):
                    await connection.close()
        finally:
            connection.terminate()  # when the goodbye was cut short; otherwise nothing

    async def _take_or_keep(self) -> bool:
        if self._connection is None or self._connection.is_closed():
            await self.end()
            self._connection = await open_connection(self._dsn, name="turn", statement_timeout_ms=_ANSWER_MS)
        if self._is_mine:
            await self._connection.execute("SELECT 1")  # raises when the connection has gone, and the lock with it
            return True
        await self._connection.execute(_BEGIN)
        self._is_mine = await self._connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", self._lock)
        if not self._is_mine:
            await self._connection.execute("ROLLBACK")
        else:
            log.debug("writing to %s from now on", self._name)
        return self._is_mine
