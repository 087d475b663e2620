"""The writer lock of a shared copy: one worker at a time writes to it, by a row of `write_locks` in Postgres."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from orion_recall.errors import RecordError
from orion_recall.postgres.pool import Connection, open_connection, translate

log = logging.getLogger("orion_recall.memory")

_ANSWER_MS = 5000
_CLOSE_TIMEOUT_S = 1.0
_LONGEST_TRANSACTION_S = 20.0

# A lock of a transaction, not of a session, so that a pooler cannot give its connection to others. A transaction
# that has locked a row delays vacuum, so it is a new one after some seconds: in between another worker may come
# first. The server may not end it as idle, and notices within half a minute that the machine of its holder has
# vanished.
_BEGIN = """
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL tcp_keepalives_idle = 10;
SET LOCAL tcp_keepalives_interval = 5;
SET LOCAL tcp_keepalives_count = 3;
"""
_ADD_NAME = "INSERT INTO write_locks (name) VALUES ($1) ON CONFLICT DO NOTHING"
_TRY_LOCK = "SELECT try_write_lock($1)"


class WriterLock:
    """The writer lock of one copy, on a separate connection, so that the lock of a dead worker is released."""

    def __init__(self, dsn: str, *, kind: str, copy: str) -> None:
        self._dsn, self._name = dsn, f"the {kind} {copy}"
        self._connection: Connection | None = None
        self._is_held, self._held_since = False, 0.0

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
            # By itself: others wait for the end of a transaction that has added the name.
            await self._connection.execute(_ADD_NAME, self._name)
        if self._is_held and time.monotonic() - self._held_since < _LONGEST_TRANSACTION_S:
            await self._connection.execute("SELECT 1")  # raises when the connection has gone, and the lock with it
            return True
        was_held = self._is_held
        if was_held:
            self._is_held = False
            await self._connection.execute("COMMIT")
        await self._connection.execute(_BEGIN)
        self._is_held = await self._connection.fetchval(_TRY_LOCK, self._name)
        if not self._is_held:
            await self._connection.execute("ROLLBACK")
        elif not was_held:
            log.debug("took the writer lock of %s", self._name)
        self._held_since = time.monotonic()
        return self._is_held
