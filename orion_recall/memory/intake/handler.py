"""The interface of a message handler, and receipts and checks that all handlers share."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel

from orion_recall.bus.envelope import Received
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import RefusedMessage
from orion_recall.settings import Settings
from orion_recall.text.normal import storable

NO_RECORD = "this worker has no record: set ORION_POSTGRES_DSN to store and change memories"


class Handler(Protocol):
    """Serves one kind of message."""

    @property
    def kind(self) -> str: ...
    @property
    def receipt_kind(self) -> str: ...

    async def receipt(self, received: Received, time_left_s: float) -> BaseModel:
        """The receipt for a message that could be read. `time_left_s`: until its sender stops waiting, or since.

        It may be served again: a worker may die before the receipt goes out. MessageError: it is not served.
        RecordError: nothing was done; the message waits while the record is away, and fails if it is refused.
        """
        ...

    def nothing(self, error: ErrorInfo) -> BaseModel:
        """The receipt for a message that is not served."""
        ...


def served_tenant(tenant: str | None, settings: Settings) -> str:
    """The tenant, else the default one; RefusedMessage when this worker does not serve it."""
    name = storable(tenant or settings.default_tenant)
    if not settings.serves(name):
        raise RefusedMessage(f"tenant {name!r} is not served here: ORION_TENANTS lists those that are")
    return name


def nothing_done(error: ErrorInfo) -> MemoryReceiptV1:
    """The receipt for a message about memories that is not served."""
    return MemoryReceiptV1(stored=0, unchanged=0, conflict=0, rejected=0, results=[], error=error)
