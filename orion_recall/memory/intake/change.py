"""Handlers of `memory.update.v1` and `memory.delete.v1`: by id, or by a query with the count of an earlier dry run.

Change, history, outbox and receipt are one transaction. Then the other workers get tombstones, and the receipt goes
out when every copy has the change, or with `pending` after a time-out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, cast

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import (
    CHANGEABLE,
    DELETE_KIND,
    RECEIPT_KIND,
    UNCHANGEABLE,
    UPDATE_KIND,
    ErrorInfo,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryUpdateV1,
    MemoryVerdictV1,
    MemoryWhereV1,
    read_message,
)
from orion_recall.errors import ExpiredMessage, InvalidMessage, RecordError, RefusedMessage
from orion_recall.memory.intake.message_worker import (
    NO_RECORD,
    answered_once,
    hash_of,
    key_of,
    nothing_done,
    receipt_of,
    redacted_fields,
    served_tenant,
)
from orion_recall.memory.record.changes import delete, update
from orion_recall.memory.record.compose import ChangeVerdict, Patch
from orion_recall.memory.record.reader import matching
from orion_recall.memory.replicas.tombstones import TombstoneStream, registered_positions
from orion_recall.postgres.pool import Connection, Pool, borrow
from orion_recall.settings import Settings
from orion_recall.text.normal import memory_key, storable_json

log = logging.getLogger("orion_recall.memory")
_POLL_S = 0.05
# Time for sending the receipt itself.
_RESERVE_S = 0.25


def waiting_s(settings: Settings, time_left_s: float) -> float:
    """How long a receipt may wait for the copies, given the seconds until its sender stops waiting."""
    return min(settings.acknowledge_ms / 1000, max(time_left_s - _RESERVE_S, 0.0))


class ChangePropagation:
    """Publishes tombstones of a change, wakes the projectors, and waits for the copies."""

    def __init__(self, pool: Pool, tombstones: TombstoneStream, wake: Callable[[], None]) -> None:
        self._pool, self._tombstones, self._wake = pool, tombstones, wake

    async def pending(self, changed: Iterable[tuple[str, str]], position: int, timeout_s: float) -> bool:
        """Whether a registered copy is still before the position after `timeout_s`.

        `changed` are the memories by tenant and id. While it is pending, workers leave them out by their
        tombstones; afterwards every worker finds their present state.
        """
        self._wake()
        await self._tombstones.publish({memory_key(tenant, name): position for tenant, name in changed})
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            while min((kept := await registered_positions(self._pool)).values(), default=position) < position:
                if loop.time() + _POLL_S > until:
                    return True
                await asyncio.sleep(_POLL_S)
        except RecordError as error:
            log.warning("the copies' positions cannot be read, so a receipt is pending at %d: %s", position, error)
            return True
        await self._tombstones.reached(kept)
        return False


_LONGEST_ID = 512


def read_patch(raw: Mapping[str, Any], where: str, settings: Settings) -> Patch | MemoryVerdictV1:
    """One memory of `memory.update.v1`, or why it is rejected."""
    # Cleaned first: what is compared with the record is as the record has it.
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    name, version = changes.pop("id", None), changes.pop("expected_version", None)
    try:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise InvalidMessage(f"{where}.id: expected the id of a memory, of 1 to {_LONGEST_ID} characters")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise InvalidMessage(f"{where}.expected_version: expected a whole number")
        return Patch(id=name, changes=read_changes(changes, where, settings), expected_version=version)
    except InvalidMessage as error:
        return MemoryVerdictV1(id=name if isinstance(name, str) else None, status="rejected", reason=str(error))


def read_changes(raw: Mapping[str, Any], where: str, settings: Settings) -> Mapping[str, Any]:
    """The fields to change; InvalidMessage for one that does not exist or cannot be changed, or for none."""
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    if not changes:
        raise InvalidMessage(f"{where}: there is nothing to change in it: name a field")
    for field in changes:
        if field in UNCHANGEABLE:
            raise InvalidMessage(f"{where}.{field}: it cannot be changed")
        if field not in CHANGEABLE:
            close = get_close_matches(field, CHANGEABLE, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CHANGEABLE)}"
            raise InvalidMessage(f"{where}.{field[:60]}: a memory has no such field; {hint}")
    if changes.get("text", "") is None:
        raise InvalidMessage(f"{where}.text: it cannot be cleared: delete the memory instead")
    changes = redacted_fields(changes, settings)
    if isinstance(changes.get("kind"), str):
        settings.check_kinds([changes["kind"]], f"{where}.kind")
    return changes


_SHOWN = 100
_CHANGED = ("updated", "deleted")
_Message = MemoryUpdateV1 | MemoryDeleteV1
_Work = Callable[[Connection, Sequence[str]], Awaitable[MemoryReceiptV1]]


class _ChangeHandler:
    """The common part of updates and deletions. Without a pool there is no record, and all is refused."""

    receipt_kind = RECEIPT_KIND

    def __init__(self, pool: Pool | None, propagation: ChangePropagation | None, settings: Settings) -> None:
        self._pool, self._propagation, self._settings = pool, propagation, settings

    def nothing(self, error: ErrorInfo) -> MemoryReceiptV1:
        return nothing_done(error)

    def _tenant(self, message: _Message, caller: Caller | None) -> str:
        if message.where is not None:
            self._settings.check_kinds(message.where.kinds, "payload.where.kinds")
        return served_tenant(message.tenant, self._settings, caller)

    async def _answer(
        self, message: _Message, tenant: str, key: str, request_hash: str, work: _Work, time_left_s: float
    ) -> MemoryReceiptV1:
        if self._pool is None or self._propagation is None:
            raise RefusedMessage(NO_RECORD)
        where, expected = message.where, message.expected_count
        if where is not None and expected is None:
            _check_time(time_left_s)
            return await _dry_run(self._pool, tenant, where, self._settings.where_cap)

        async def whole(connection: Connection) -> MemoryReceiptV1:
            # Not earlier: a message that another worker carried out before it died must get its receipt.
            _check_time(time_left_s)
            if where is None:
                return await work(connection, ())
            found = await matching(connection, tenant, where, self._settings.where_cap)
            refusal = _refusal(found.count, expected or 0, self._settings.where_cap)
            if refusal is not None:
                return refusal
            return (await work(connection, found.ids)).model_copy(update={"matched": found.count})

        receipt = await answered_once(self._pool, tenant, key, request_hash, whole)
        changed = [(tenant, one.id) for one in receipt.results if one.status in _CHANGED and one.id is not None]
        if not changed or receipt.position is None:
            return receipt
        wait_s = waiting_s(self._settings, time_left_s)
        pending = await self._propagation.pending(changed, receipt.position, wait_s)
        return receipt.model_copy(update={"pending": pending})


class UpdateHandler(_ChangeHandler):
    """Serves `memory.update.v1`."""

    kind = UPDATE_KIND

    async def receipt(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        """Every patch judged alone; RecordError: nothing was changed."""
        read = partial(self._read, received)
        message, tenant, changes, patches, request_hash = await read_apart(received.size, read)

        async def work(connection: Connection, ids: Sequence[str]) -> MemoryReceiptV1:
            wanted = patches if changes is None else [Patch(id=name, changes=changes) for name in ids]
            good = [one for one in wanted if isinstance(one, Patch)]
            extractor = self._settings.extractor
            verdicts = iter(await update(connection, tenant, good, actor=message.actor, extractor=extractor))
            return _receipt([next(verdicts) if isinstance(one, Patch) else one for one in wanted])

        key = key_of(message.idempotency_key, self._settings.update_stream, received.entry)
        return await self._answer(message, tenant, key, request_hash, work, time_left_s)

    def _read(
        self, received: Received
    ) -> tuple[MemoryUpdateV1, str, Mapping[str, Any] | None, Sequence[Patch | MemoryVerdictV1], str]:
        """The message, its tenant, what is to be changed of all that match, the patches, and the request's hash."""
        message = read_message(MemoryUpdateV1, received.payload, "payload")
        raws = enumerate(message.memories or ())
        return (
            message,
            self._tenant(message, received.caller),
            None if message.set is None else read_changes(message.set, "payload.set", self._settings),
            [read_patch(raw, f"memories.{index}", self._settings) for index, raw in raws],
            hash_of(self.kind, message),
        )


class DeleteHandler(_ChangeHandler):
    """Serves `memory.delete.v1`."""

    kind = DELETE_KIND

    async def receipt(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        """What became of every id; RecordError: nothing was deleted."""
        message = await read_apart(
            received.size, partial(read_message, MemoryDeleteV1, received.payload, "payload")
        )
        tenant = self._tenant(message, received.caller)

        async def work(connection: Connection, ids: Sequence[str]) -> MemoryReceiptV1:
            verdicts = await delete(
                connection,
                tenant,
                ids if message.ids is None else message.ids,
                actor=message.actor,
                why=message.reason,
                erase=message.erase,
            )
            return _receipt(verdicts)

        key = key_of(message.idempotency_key, self._settings.delete_stream, received.entry)
        return await self._answer(message, tenant, key, hash_of(self.kind, message), work, time_left_s)


def _check_time(time_left_s: float) -> None:
    if time_left_s <= 0:
        raise ExpiredMessage(
            f"the ttl ran out {-time_left_s * 1000:.0f} ms ago: nothing was changed; send it again"
        )


async def _dry_run(pool: Pool, tenant: str, where: MemoryWhereV1, cap: int) -> MemoryReceiptV1:
    async with borrow(pool, "counting memories") as connection:
        found = await matching(connection, tenant, where, _SHOWN)
    if (refusal := _refusal(found.count, found.count, cap)) is not None:
        return refusal
    results = [MemoryVerdictV1(id=name, status="matched") for name in found.ids]
    return receipt_of(results, matched=found.count)


def _refusal(count: int, expected: int, cap: int) -> MemoryReceiptV1 | None:
    """The receipt that refuses a query by its count; None when it may be carried out."""
    if count != expected:
        why = (
            f"payload.expected_count: {count} memories match now, not {expected}: check them without "
            "expected_count, then send the new count"
        )
    elif count > cap:
        why = (
            f"payload.where: {count} memories match, and at most {cap} are changed at once: match fewer, or raise "
            "ORION_WHERE_CAP"
        )
    else:
        return None
    return nothing_done(ErrorInfo(type="refused", message=why)).model_copy(update={"matched": count})


def _receipt(judged: Sequence[ChangeVerdict | MemoryVerdictV1]) -> MemoryReceiptV1:
    positions = [one.position for one in judged if isinstance(one, ChangeVerdict) and one.position is not None]
    results = [MemoryVerdictV1(id=one.id, status=one.status, reason=one.reason) for one in judged]
    return receipt_of(results, position=max(positions, default=None))
