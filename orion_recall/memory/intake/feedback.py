"""Handler of `recall.feedback.v1`: which memories of a recall were used, stored once for each entry."""

from __future__ import annotations

from typing import LiteralString

from orion_recall.bus.envelope import Received
from orion_recall.contracts import (
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    ErrorInfo,
    RecallFeedbackV1,
    RecallReceiptV1,
    read_message,
)
from orion_recall.errors import RefusedMessage
from orion_recall.memory.intake.handler import NO_RECORD, served_tenant
from orion_recall.memory.intake.idempotency import key_of
from orion_recall.postgres.pool import Pool, borrow
from orion_recall.settings import Settings

_KEEP: LiteralString = """
INSERT INTO recall_feedback (tenant, corr_id, decision_id, used, wrong, note, actor, entry_id)
VALUES ($1, $2, $3, $4::text[], $5::text[], $6, $7, $8) ON CONFLICT (entry_id) DO NOTHING
"""


class FeedbackHandler:
    """Stores feedback in the record, also after its ttl."""

    kind, receipt_kind = FEEDBACK_KIND, FEEDBACK_RECEIPT_KIND

    def __init__(self, pool: Pool | None, settings: Settings) -> None:
        self._pool, self._settings = pool, settings

    async def receipt(self, received: Received, time_left_s: float) -> RecallReceiptV1:
        """Stores it; idempotent. RecordError: nothing was stored."""
        said = read_message(RecallFeedbackV1, received.payload, "payload")
        tenant = served_tenant(said.tenant, self._settings)
        if self._pool is None:
            raise RefusedMessage(NO_RECORD)
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

    def nothing(self, error: ErrorInfo) -> RecallReceiptV1:
        """The receipt for a message that is not served."""
        return RecallReceiptV1(recorded=False, error=error)
