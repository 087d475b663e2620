"""Handler of `recall.feedback.v1`: which memories of a recall were used, stored once for each entry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import LiteralString

from redis.exceptions import RedisError

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.envelope import Received
from orion_recall.contracts import (
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    ErrorInfo,
    RecallFeedbackV1,
    RecallReceiptV1,
    read_message,
)
from orion_recall.errors import RecordError, RefusedMessage
from orion_recall.memory.intake.message_worker import NO_RECORD, key_of, served_tenant
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.settings import Settings

_KEEP: LiteralString = """
INSERT INTO recall_feedback (tenant, corr_id, decision_id, used, wrong, note, actor, entry_id)
VALUES ($1, $2, $3, $4::text[], $5::text[], $6, $7, $8) ON CONFLICT (entry_id) DO NOTHING
"""


# As `decisions/feedback.py` finds it: by the decision's own id, else by the correlation id.
_IS_KNOWN: LiteralString = """
SELECT EXISTS (
    SELECT FROM recall_decisions WHERE $2::text IS NOT NULL AND tenant = $1 AND shadow_of IS NULL
    AND id = CASE WHEN $2 ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN $2::uuid END
    UNION ALL
    SELECT FROM recall_decisions WHERE $2 IS NULL AND tenant = $1 AND shadow_of IS NULL AND corr_id = $3
)
"""
# Who asks and judges at once is faster than the sink, which writes about ten times a second.
_TRIES, _PAUSE_S = 10, 0.1


class FeedbackHandler:
    """Stores feedback in the record, also after its ttl. What is about no decision of its tenant is refused."""

    kind, receipt_kind = FEEDBACK_KIND, FEEDBACK_RECEIPT_KIND

    def __init__(
        self, pool: Pool | None, settings: Settings, are_persisted: Callable[[int], Awaitable[bool]]
    ) -> None:
        self._pool, self._settings, self._are_persisted = pool, settings, are_persisted

    async def receipt(self, received: Received, time_left_s: float) -> RecallReceiptV1:
        """Stores it; idempotent. RecordError: nothing was stored."""
        said = await read_apart(received.size, partial(read_message, RecallFeedbackV1, received.payload, "payload"))
        tenant = served_tenant(said.tenant, self._settings, received.caller)
        if self._pool is None:
            raise RefusedMessage(NO_RECORD)
        await self._expect_decision(self._pool, tenant, said, received)
        entry = key_of(None, self._settings.feedback_stream, received.entry)
        async with borrow(self._pool, "keeping feedback") as connection:
            await connection.execute(
                _KEEP,
                tenant,
                said.correlation_id,
                said.decision_id,
                list(said.used),
                list(said.wrong),
                said.note,
                said.actor,
                entry,
            )
        return RecallReceiptV1(recorded=True)

    async def _expect_decision(self, pool: Pool, tenant: str, said: RecallFeedbackV1, received: Received) -> None:
        """RefusedMessage when there is no such decision; RecordError while it may be on its way to the record."""
        until_ms = int(received.entry.added_at * 1000)
        for _ in range(_TRIES):
            try:
                all_there = await self._are_persisted(until_ms)
            except (*BUS_AWAY, RedisError):
                all_there = False
            async with borrow(pool, "looking for a decision") as connection:
                if await connection.fetchval(_IS_KNOWN, tenant, said.decision_id, said.correlation_id):
                    return
            if all_there:
                what = "decision_id" if said.decision_id is not None else "correlation_id"
                raise RefusedMessage(
                    f"payload.{what}: the tenant {tenant!r} has no decision with this id in the log"
                )
            await asyncio.sleep(_PAUSE_S)
        # The message waits, as for a record that is away.
        raise RecordError("the decision that feedback is about is not recorded yet") from TimeoutError()

    def nothing(self, error: ErrorInfo) -> RecallReceiptV1:
        return RecallReceiptV1(recorded=False, error=error)
