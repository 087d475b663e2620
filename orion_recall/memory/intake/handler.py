"""The interface of a message handler, and receipts and checks that all handlers share."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import RefusedMessage
from orion_recall.settings import Settings
from orion_recall.text.normal import storable
from orion_recall.text.redaction import Redaction

NO_RECORD = "this worker has no record: set ORION_POSTGRES_DSN to store and change memories"
_REDACTED = frozenset(("text", "title", "entities", "metadata"))


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


def served_tenant(tenant: str | None, settings: Settings, caller: Caller | None = None) -> str:
    """The tenant, else the default one; RefusedMessage when this worker or the caller's key does not serve it."""
    name = tenant_of(storable(tenant) if tenant else None, caller, storable(settings.default_tenant))
    if not settings.serves(name):
        raise RefusedMessage(f"tenant {name!r} is not served here: ORION_TENANTS lists those that are")
    return name


def redacted_fields(fields: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The fields of a memory with what is not to be stored redacted: text, title, entities and metadata."""
    redaction = Redaction.at("store", settings.redact)
    if not redaction.kinds:
        return fields
    return {name: redaction.json(value) if name in _REDACTED else value for name, value in fields.items()}


def nothing_done(error: ErrorInfo) -> MemoryReceiptV1:
    """The receipt for a message about memories that is not served."""
    return MemoryReceiptV1(stored=0, unchanged=0, conflict=0, rejected=0, results=[], error=error)
