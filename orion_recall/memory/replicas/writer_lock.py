"""The writer lock of a shared copy: one worker at a time writes to it, by an advisory lock in Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Connection, open_connection, translate
from orion_recall.text.normal import number_of

log = logging.getLogger("orion_recall.memory")

_ANSWER_MS = 5000
_CLOSE_TIMEOUT_S = 1.0

# An advisory lock of a transaction, not of a session, so that a pooler cannot give its connection to others. The
# transaction holds no snapshot, so it delays no vacuum. The server may not end it as idle, and notices within half
# a minute that the machine of its holder has vanished.
_BEGIN = """
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
"""


class WriterLock:
    """The writer lock of one copy, on a separate connection, so that the lock of a dead worker is released."""

    def __init__(self, dsn: str, *, kind: str, copy: str) -> None:
        self._dsn, self._name = dsn, f"the {kind} {copy}"
        self._lock_number = number_of(kind, copy)
        self._connection: Connection | None = None
        self._is_held = False

    @property
    def is_held(self) -> bool:
        """Whether this process held the lock when it last asked."""
        return self._is_held

    async def acquire(self) -> bool:
        """Whether this process holds the lock now; takes it when it is free. RecordError while Postgres is away."""
        try:
            with translate("taking the writer lock"):
                return await self._acquire_or_check()
        except RecordError:
            await self.release()
            raise

    async def release(self) -> None:
        """Lets another worker write."""
        connection, self._connection = self._connection, None
        if self._is_held:
            log.debug("released the writer lock of %s", self._name)
        self._is_held = False
        if connection is None:
            return
        try:
            with contextlib.suppress(RecordError), translate():
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await connection.close()
        finally:
            connection.terminate()  # after a close that was cut short; else it does nothing

    async def _acquire_or_check(self) -> bool:
        if self._connection is None or self._connection.is_closed():
            await self.release()
            self._connection = await open_connection(self._dsn, name="turn", statement_timeout_ms=_ANSWER_MS)
        if self._is_held:
            await self._connection.execute("SELECT 1")  # raises when the connection has gone, and the lock with it
            return True
        await self._connection.execute(_BEGIN)
        self._is_held = await self._connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", self._lock_number)
        if not self._is_held:
            await self._connection.execute("ROLLBACK")
        else:
            log.debug("took the writer lock of %s", self._name)
        return self._is_held
