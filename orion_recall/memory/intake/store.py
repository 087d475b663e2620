"""Handler of `memory.store.v1`: validates each memory alone, stores the valid ones in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import (
    RECEIPT_KIND,
    STORE_KIND,
    ErrorInfo,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryV1,
    MemoryVerdictV1,
    read_message,
)
from orion_recall.errors import MessageError, RefusedMessage
from orion_recall.foreground import FOREGROUND
from orion_recall.memory.intake.change import ChangePropagation, waiting_s
from orion_recall.memory.intake.message_worker import NO_RECORD, nothing_done, receipt_of, redacted_fields
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import StoreResult
from orion_recall.settings import Settings
from orion_recall.tasks import report
from orion_recall.text.normal import storable_json
from orion_recall.values import Memory

# About five milliseconds of composing.
_AT_A_TIME = 4


class Store(Protocol):
    """Stores memories: the record."""

    async def store(self, memories: Sequence[Memory]) -> StoreResult: ...


class StoreHandler:
    """Serves `memory.store.v1`, also after its ttl. `wake` is called when new memories were stored."""

    kind, receipt_kind = STORE_KIND, RECEIPT_KIND

    def __init__(
        self,
        record: Store | None,
        propagation: ChangePropagation | None,
        settings: Settings,
        wake: Callable[[], None],
    ) -> None:
        self._record, self._propagation, self._settings, self._wake = record, propagation, settings, wake
        # One batch composes at a time: several threads would slow recalls.
        self._composing = asyncio.Lock()

    async def receipt(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        """The verdict on every memory; RecordError: nothing was stored."""
        payload = await read_apart(received.size, partial(read_message, MemoryStoreV1, received.payload, "payload"))
        if self._record is None:
            raise RefusedMessage(NO_RECORD)
        receipt, superseded = await receive(
            payload, self._record, self._settings, self._composing, caller=received.caller
        )
        if receipt.stored:
            self._wake()
        if not superseded or receipt.position is None or self._propagation is None:
            return receipt
        wait_s = waiting_s(self._settings, time_left_s)
        pending = await self._propagation.pending(superseded, receipt.position, wait_s)
        return receipt.model_copy(update={"pending": pending})

    def nothing(self, error: ErrorInfo) -> MemoryReceiptV1:
        return nothing_done(error)


async def receive(
    payload: MemoryStoreV1,
    record: Store,
    settings: Settings,
    composing: AbstractAsyncContextManager[None] | None = None,
    *,
    caller: Caller | None = None,
) -> tuple[MemoryReceiptV1, frozenset[tuple[str, str]]]:
    """The receipt for a batch, its results in the order of the memories; tenant and id of what they superseded."""
    async with composing or nullcontext():
        # Hashing and extraction of a large batch take a while: not on the loop.
        composed = await asyncio.to_thread(_compose_all, payload.memories, settings, caller)
    result = await record.store([memory for memory in composed if isinstance(memory, Memory)])
    verdicts = iter(result.verdicts)
    results = [next(verdicts) if isinstance(one, Memory) else one for one in composed]
    return receipt_of(results, position=result.position), result.superseded


def _compose_all(
    memories: Sequence[Mapping[str, Any]], settings: Settings, caller: Caller | None
) -> list[Memory | MemoryVerdictV1]:
    return [
        _compose_one(raw, f"memories.{index}", settings, caller)
        for index, raw in enumerate(FOREGROUND.throttled(memories, _AT_A_TIME))
    ]


def _compose_one(
    raw: Mapping[str, Any], where: str, settings: Settings, caller: Caller | None
) -> Memory | MemoryVerdictV1:
    # Cleaned first: pydantic refuses texts with lone surrogates outright.
    clean = redacted_fields(storable_json(dict(raw)), settings)
    try:
        message = read_message(MemoryV1, clean, where)
        settings.check_kinds([message.kind] if message.kind else [], f"{where}.kind")
        memory = compose(message, tenant_of(message.tenant, caller, settings.default_tenant))
        if not settings.serves(memory.tenant):
            raise RefusedMessage(f"{where}.tenant: this worker does not serve {memory.tenant!r}")
    except MessageError as error:
        return _rejected(clean, str(error))
    except Exception as error:  # noqa: BLE001 (logged; it must not cost the other memories of the message)
        report("a memory could not be read", error)
        return _rejected(
            clean, f"{where}: it could not be read ({type(error).__name__}): its worker's log says where"
        )
    return memory


def _rejected(raw: Mapping[str, Any], why: str) -> MemoryVerdictV1:
    name = raw.get("id")
    return MemoryVerdictV1(id=name if isinstance(name, str) else None, status="rejected", reason=why)
