"""Handlers of the intake messages: store, update, delete, feedback.

Every memory of a message is judged alone. Change, history, outbox and receipt are one transaction. Then the other
workers get tombstones, and the receipt goes out when every copy has the change, or with `pending` after a time-out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, LiteralString, cast

from redis.exceptions import RedisError

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import (
    CHANGEABLE,
    DELETE_KIND,
    FEEDBACK_KIND,
    FEEDBACK_RECEIPT_KIND,
    RECEIPT_KIND,
    STORE_KIND,
    UNCHANGEABLE,
    UPDATE_KIND,
    ErrorInfo,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    MemoryV1,
    MemoryVerdictV1,
    MemoryWhereV1,
    RecallFeedbackV1,
    RecallReceiptV1,
    read_message,
)
from orion_recall.errors import ExpiredMessage, InvalidMessage, MessageError, RecordError, RefusedMessage
from orion_recall.foreground import FOREGROUND
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
from orion_recall.memory.record.compose import ChangeVerdict, Patch, compose
from orion_recall.memory.record.reader import matching
from orion_recall.memory.record.record import Record, delete, update
from orion_recall.memory.replicas.tombstones import TombstoneStream, registered_positions
from orion_recall.postgres.pool import Connection, Pool, borrow
from orion_recall.settings import Settings
from orion_recall.tasks import report
from orion_recall.text.normal import memory_key, storable_json
from orion_recall.values import Memory

# About five milliseconds of composing.
_AT_A_TIME = 4


class StoreHandler:
    """Serves `memory.store.v1`, also after its ttl. `wake` is called when new memories were stored."""

    kind, receipt_kind, nothing = STORE_KIND, RECEIPT_KIND, staticmethod(nothing_done)

    def __init__(
        self,
        record: Record | None,
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
        if self._record is None or self._propagation is None:
            raise RefusedMessage(NO_RECORD)
        async with self._composing:
            # Hashing and extraction of a large batch take a while: not on the loop.
            composed = await asyncio.to_thread(compose_all, payload.memories, self._settings, received.caller)
        result = await self._record.store([memory for memory in composed if isinstance(memory, Memory)])
        verdicts = iter(result.verdicts)
        results = [next(verdicts) if isinstance(one, Memory) else one for one in composed]
        receipt = receipt_of(results, position=result.position)
        if receipt.stored:
            self._wake()
        return await self._propagation.settled(receipt, result.superseded, time_left_s)


def compose_all(
    memories: Sequence[Mapping[str, Any]], settings: Settings, caller: Caller | None = None
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


log = logging.getLogger("orion_recall.memory")
_POLL_S = 0.05
# Time for sending the receipt itself.
_RESERVE_S = 0.25


class ChangePropagation:
    """Publishes tombstones of a change, wakes the projectors, and waits for the copies."""

    def __init__(
        self, pool: Pool, tombstones: TombstoneStream, acknowledge_ms: int, wake: Callable[[], None]
    ) -> None:
        self._pool, self._tombstones, self._acknowledge_ms, self._wake = pool, tombstones, acknowledge_ms, wake

    async def settled(
        self, receipt: MemoryReceiptV1, changed: Collection[tuple[str, str]], time_left_s: float
    ) -> MemoryReceiptV1:
        """The receipt when the copies have the change, or with `pending` when one is still before it in the end.

        `changed` are the memories by tenant and id. While it is pending, workers leave them out by their
        tombstones; afterwards every worker finds their present state.
        """
        if not changed or receipt.position is None:
            return receipt
        self._wake()
        await self._tombstones.publish({memory_key(*one): receipt.position for one in changed})
        wait_s = min(self._acknowledge_ms / 1000, max(time_left_s - _RESERVE_S, 0.0))
        return receipt.model_copy(update={"pending": not await self._are_reached(receipt.position, wait_s)})

    async def _are_reached(self, position: int, timeout_s: float) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            while min((kept := await registered_positions(self._pool)).values(), default=position) < position:
                if loop.time() + _POLL_S > until:
                    return False
                await asyncio.sleep(_POLL_S)
        except RecordError as error:
            log.warning("the copies' positions cannot be read, so a receipt is pending at %d: %s", position, error)
            return False
        await self._tombstones.reached(kept)
        return True


_LONGEST_ID = 512


def read_patch(raw: Mapping[str, Any], where: str, settings: Settings) -> Patch | MemoryVerdictV1:
    # Cleaned first: what is compared with the record is as the record has it.
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    name, version = changes.pop("id", None), changes.pop("expected_version", None)
    try:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise InvalidMessage(f"{where}.id: expected the id of a memory, of 1 to {_LONGEST_ID} characters")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise InvalidMessage(f"{where}.expected_version: expected a whole number")
        return Patch(id=name, changes=_read_changes(changes, where, settings), expected_version=version)
    except InvalidMessage as error:
        return MemoryVerdictV1(id=name if isinstance(name, str) else None, status="rejected", reason=str(error))


def _read_changes(raw: Mapping[str, Any], where: str, settings: Settings) -> Mapping[str, Any]:
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

    kind: str
    receipt_kind, nothing = RECEIPT_KIND, staticmethod(nothing_done)

    def __init__(self, pool: Pool | None, propagation: ChangePropagation | None, settings: Settings) -> None:
        self._pool, self._propagation, self._settings = pool, propagation, settings

    def _tenant(self, message: _Message, caller: Caller | None) -> str:
        if message.where is not None:
            self._settings.check_kinds(message.where.kinds, "payload.where.kinds")
        return served_tenant(message.tenant, self._settings, caller)

    async def _answer(
        self, message: _Message, tenant: str, key: str, work: _Work, time_left_s: float
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
            count, ids = await matching(connection, tenant, where, self._settings.where_cap)
            if (refusal := _refusal(count, expected or 0, self._settings.where_cap)) is not None:
                return refusal
            return (await work(connection, ids)).model_copy(update={"matched": count})

        request_hash = await asyncio.to_thread(hash_of, self.kind, message)
        receipt = await answered_once(self._pool, tenant, key, request_hash, whole)
        changed = [(tenant, one.id) for one in receipt.results if one.status in _CHANGED and one.id is not None]
        return await self._propagation.settled(receipt, changed, time_left_s)


class UpdateHandler(_ChangeHandler):
    kind = UPDATE_KIND

    async def receipt(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        """Every patch judged alone; RecordError: nothing was changed."""
        message, tenant, set_, patches = await read_apart(received.size, partial(self._read, received))

        async def work(connection: Connection, ids: Sequence[str]) -> MemoryReceiptV1:
            wanted = patches if set_ is None else [Patch(id=name, changes=set_) for name in ids]
            good = [one for one in wanted if isinstance(one, Patch)]
            extractor = self._settings.extractor
            verdicts = iter(await update(connection, tenant, good, actor=message.actor, extractor=extractor))
            return _receipt([next(verdicts) if isinstance(one, Patch) else one for one in wanted])

        key = key_of(message.idempotency_key, self._settings.update_stream, received.entry)
        return await self._answer(message, tenant, key, work, time_left_s)

    def _read(
        self, received: Received
    ) -> tuple[MemoryUpdateV1, str, Mapping[str, Any] | None, Sequence[Patch | MemoryVerdictV1]]:
        message = read_message(MemoryUpdateV1, received.payload, "payload")
        return (
            message,
            self._tenant(message, received.caller),
            None if message.set is None else _read_changes(message.set, "payload.set", self._settings),
            [
                read_patch(raw, f"memories.{index}", self._settings)
                for index, raw in enumerate(message.memories or ())
            ],
        )


class DeleteHandler(_ChangeHandler):
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
        return await self._answer(message, tenant, key, work, time_left_s)


def _check_time(time_left_s: float) -> None:
    if time_left_s <= 0:
        raise ExpiredMessage(
            f"the ttl ran out {-time_left_s * 1000:.0f} ms ago: nothing was changed; send it again"
        )


async def _dry_run(pool: Pool, tenant: str, where: MemoryWhereV1, cap: int) -> MemoryReceiptV1:
    async with borrow(pool, "counting memories") as connection:
        count, ids = await matching(connection, tenant, where, _SHOWN)
    if (refusal := _refusal(count, count, cap)) is not None:
        return refusal
    return receipt_of([MemoryVerdictV1(id=name, status="matched") for name in ids], matched=count)


def _refusal(count: int, expected: int, cap: int) -> MemoryReceiptV1 | None:
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


_KEEP: LiteralString = """
INSERT INTO recall_feedback (tenant, corr_id, decision_id, used, wrong, note, actor, entry_id)
VALUES ($1, $2, $3, $4::text[], $5::text[], $6, $7, $8) ON CONFLICT (entry_id) DO NOTHING
"""


# As `decisions/memories.py` finds it: by the decision's own id, else by the correlation id.
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

    def nothing(self, error: ErrorInfo) -> RecallReceiptV1:
        return RecallReceiptV1(recorded=False, error=error)

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
            about = tenant, said.correlation_id, said.decision_id
            await connection.execute(_KEEP, *about, list(said.used), list(said.wrong), said.note, said.actor, entry)
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
