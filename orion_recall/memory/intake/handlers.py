"""Handlers of the intake messages: store, update, delete, feedback.

Every memory of a message is judged alone. Change, history, outbox and receipt are one transaction. Then the other
workers get tombstones, and the receipt goes out when every copy has it, or with `pending` after a time-out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, LiteralString, NamedTuple, TypeVar, cast

from pydantic import BaseModel
from redis.exceptions import RedisError

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.bus.envelope import Received
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    STORE_KIND,
    UPDATE_KIND,
    ErrorInfo,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryStoreV1,
    MemoryUpdateV1,
    MemoryV1,
    MemoryVerdictV1,
    RecallFeedbackV1,
    RecallReceiptV1,
    read_message,
)
from orion_recall.contracts.fields import nearest
from orion_recall.contracts.memory import (
    CHANGEABLE,
    FEEDBACK_RECEIPT_KIND,
    MAX_TEXT_CHARS,
    RECEIPT_KIND,
    UNCHANGEABLE,
)
from orion_recall.errors import ExpiredMessage, InvalidMessage, MessageError, RecordError, RefusedMessage
from orion_recall.foreground import FOREGROUND
from orion_recall.memory.record import sql as record_sql
from orion_recall.memory.record.compose import Patch, compose
from orion_recall.memory.record.record import CopyPosition, Record, delete, matching, update
from orion_recall.memory.replicas.tombstones import TombstoneStream, by_number
from orion_recall.postgres.periods import OF_TENANT, OldRows
from orion_recall.postgres.pool import Connection, Pool, borrow
from orion_recall.settings import Settings
from orion_recall.tasks import report
from orion_recall.text.normal import memory_key, storable, storable_json
from orion_recall.text.redaction import Redaction
from orion_recall.values import Memory

log = logging.getLogger("orion_recall.memory")
# About five milliseconds of composing.
_AT_A_TIME = 4
# Each holds a connection while it waits for the outbox.
_WRITING_AT_ONCE = 4
# Receipts that wait for as long as their message says: half of the messages of a kind that are served at once.
_OWN_WAITS_AT_ONCE = 8
_LONGEST_ID = 512
_DONE = ("updated", "unchanged", "deleted")
_REDACTED = frozenset(("text", "title", "entities", "metadata"))
# Of a dry run: the first ids.
_SHOWN = 100
# Time for sending the receipt itself.
_POLL_S, _RESERVE_S = 0.02, 0.25
# Who asks and judges at once is faster than the sink, which writes about ten times a second.
_TRIES, _PAUSE_S = 10, 0.1

_ANSWERED: LiteralString = (
    "SELECT request_hash, receipt FROM memory_requests WHERE tenant = $1 AND idempotency_key = $2"
)
_ANSWER: LiteralString = """
INSERT INTO memory_requests (tenant, idempotency_key, request_hash, receipt) VALUES ($1, $2, $3, $4::jsonb)
"""
KEPT_DAYS = 7
_DELETE: LiteralString = f"""
WITH gone AS (
    DELETE FROM memory_requests WHERE (tenant, idempotency_key) IN (
        SELECT tenant, idempotency_key FROM memory_requests WHERE at < $1 AND {OF_TENANT} ORDER BY at LIMIT $2
    ) RETURNING 1
)
SELECT count(*) AS count FROM gone
"""  # noqa: S608 (of constants)
OLD_REQUESTS = OldRows(what="request receipts", lock="requests", delete=_DELETE, log=log)
_KEEP: LiteralString = """
INSERT INTO recall_feedback (tenant, decision_id, corr_id, used, wrong, note, actor, entry_id)
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

_Model = TypeVar("_Model", bound=BaseModel)
_Judged = tuple[list[MemoryVerdictV1], Mapping[str, int]]


class Handler(NamedTuple):
    """How messages of one kind are served; `nothing` is the receipt for an error.

    `receipt` gets the message, and the seconds until its sender stops waiting; it may be called again, as a worker
    may die before the receipt goes out. MessageError: it is not served. RecordError: nothing was done.
    """

    kind: str
    receipt_kind: str
    receipt: Callable[[Received, float], Awaitable[BaseModel]]
    nothing: Callable[[ErrorInfo], BaseModel]


def _not_recorded(error: ErrorInfo) -> RecallReceiptV1:
    return RecallReceiptV1(recorded=False, error=error)


class MessageHandlers:
    """The handlers by the name of their stream. Without a pool every message is refused: there is no record."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool | None,
        tombstones: TombstoneStream,
        *,
        are_persisted: Callable[[int], Awaitable[bool]],
        wake: Callable[[], None],
    ) -> None:
        self._settings, self._maybe_pool, self._tombstones = settings, pool, tombstones
        self._are_persisted, self._wake = are_persisted, wake
        self._composing = asyncio.Lock()  # several threads would slow recalls
        self._writing = asyncio.Semaphore(_WRITING_AT_ONCE)
        self._own_waits = asyncio.Semaphore(_OWN_WAITS_AT_ONCE)
        self._looking, self._looked_at = asyncio.Lock(), -math.inf
        self._copies: list[CopyPosition] = []
        # Copies that a receipt has waited for in vain, and the position that it wanted.
        self._late: dict[tuple[str, str], int] = {}
        self.by_stream: Mapping[str, Handler] = {
            "stores": Handler(STORE_KIND, RECEIPT_KIND, self._store, partial(_receipt_of, ())),
            "updates": Handler(UPDATE_KIND, RECEIPT_KIND, self._update, partial(_receipt_of, ())),
            "deletes": Handler(DELETE_KIND, RECEIPT_KIND, self._delete, partial(_receipt_of, ())),
            "feedback": Handler(FEEDBACK_KIND, FEEDBACK_RECEIPT_KIND, self._feedback, _not_recorded),
        }

    @property
    def _pool(self) -> Pool:
        if self._maybe_pool is None:
            raise RefusedMessage("this worker has no record: set ORION_POSTGRES_DSN to store and change memories")
        return self._maybe_pool

    async def _store(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        message = await _read(MemoryStoreV1, received)
        record = Record(self._pool, extractor=self._settings.extractor)
        composed: list[Memory | MemoryVerdictV1] = []
        for part in _parts(message.memories):
            # Hashing and extraction of long texts take a while: not on the loop, and others have a turn between.
            async with self._composing:
                composed += await asyncio.to_thread(
                    compose_all, part, self._settings, received.caller, first=len(composed)
                )
        async with self._writing:
            result = await record.store([memory for memory in composed if isinstance(memory, Memory)])
        verdicts = iter(result.verdicts)
        results = [next(verdicts) if isinstance(one, Memory) else one for one in composed]
        receipt = _receipt_of(results, position=result.position)
        return await self._settled(receipt, result.superseded, message.wait_ms, time_left_s)

    async def _update(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        settings = self._settings

        def read() -> tuple[MemoryUpdateV1, Mapping[str, Any], list[Patch | MemoryVerdictV1]]:
            message = read_message(MemoryUpdateV1, received.payload, "payload")
            given: Mapping[str, Any] = {}
            if message.set is not None:
                given = _read_changes(message.set, "payload.set", settings)
            raws = enumerate(message.memories or ())
            return message, given, [read_patch(raw, f"memories.{index}", settings) for index, raw in raws]

        message, given, patches = await read_apart(received.size, read)

        async def work(connection: Connection, tenant: str, ids: Sequence[str]) -> _Judged:
            wanted = patches if message.set is None else [Patch(id=name, changes=given) for name in ids]
            good = [one for one in wanted if isinstance(one, Patch)]
            extractor = settings.extractor
            some, positions = await update(connection, tenant, good, actor=message.actor, extractor=extractor)
            verdicts = iter(some)
            return [next(verdicts) if isinstance(one, Patch) else one for one in wanted], positions

        return await self._changed(message, received, work, time_left_s)

    async def _delete(self, received: Received, time_left_s: float) -> MemoryReceiptV1:
        message = await _read(MemoryDeleteV1, received)

        async def work(connection: Connection, tenant: str, ids: Sequence[str]) -> _Judged:
            names, why = ids if message.ids is None else message.ids, message.reason
            return await delete(connection, tenant, names, actor=message.actor, why=why, erase=message.erase)

        return await self._changed(message, received, work, time_left_s)

    async def _changed(
        self,
        message: MemoryUpdateV1 | MemoryDeleteV1,
        received: Received,
        work: Callable[[Connection, str, Sequence[str]], Awaitable[_Judged]],
        time_left_s: float,
    ) -> MemoryReceiptV1:
        where, expected, cap = message.where, message.expected_count, self._settings.where_cap
        if where is not None:
            self._settings.check_kinds(where.kinds, "payload.where.kinds")
        tenant = self._tenant(message.tenant, received.caller)
        if where is not None and expected is None:
            _check_time(time_left_s)
            async with borrow(self._pool, "counting memories") as connection:
                count, ids = await matching(connection, tenant, where, _SHOWN)
            found = [MemoryVerdictV1(id=name, status="matched") for name in ids]
            return _refusal(count, count, cap) or _receipt_of(found, matched=count)

        async def done(connection: Connection) -> MemoryReceiptV1:
            # Not earlier: a message that another worker carried out before it died must get its receipt.
            _check_time(time_left_s)
            count, ids = None, ()
            if where is not None:
                count, ids = await matching(connection, tenant, where, cap)
                if (refusal := _refusal(count, expected or 0, cap)) is not None:
                    return refusal
            results, positions = await work(connection, tenant, ids)
            done = {one.id for one in results if one.status in _DONE}
            position = max((at for name, at in positions.items() if name in done), default=None)
            return _receipt_of(results, position=position, matched=count)

        kind = UPDATE_KIND if isinstance(message, MemoryUpdateV1) else DELETE_KIND
        key = f"entry:{self._settings.prefix}{kind}:{received.entry.id}"
        if message.idempotency_key is not None:
            key = f"key:{message.idempotency_key}"
        request_hash = await asyncio.to_thread(_request_hash, kind, message)
        async with self._writing:
            receipt = await answered_once(self._pool, tenant, key, request_hash, done)
        done_to = [one.id for one in receipt.results if one.status in ("updated", "deleted")]
        changed = [(tenant, one) for one in done_to if one is not None]
        return await self._settled(receipt, changed, message.wait_ms, time_left_s)

    async def _settled(
        self,
        receipt: MemoryReceiptV1,
        changed: Collection[tuple[str, str]],
        wait_ms: int | None,
        time_left_s: float,
    ) -> MemoryReceiptV1:
        """The receipt when every copy has it, or with `pending`. Meanwhile tombstones hide what was.

        Without `wait_ms` a copy that another receipt has waited for in vain is not waited for until it is there:
        stores would come as slowly as the slowest worker. So it is also where many wait by a `wait_ms` of their
        own, for each of them holds a place of the messages that are served at once.
        """
        if (position := receipt.position) is None:
            return receipt
        self._wake()
        usual_s = self._settings.acknowledge_ms / 1000
        is_own = bool(wait_ms) and not self._own_waits.locked()
        longest_s = usual_s if wait_ms is None else wait_ms / 1000 if is_own else min(usual_s, wait_ms / 1000)
        wait_s = min(longest_s, max(time_left_s - _RESERVE_S, 0.0))
        async with self._own_waits if is_own else nullcontext():
            if changed or wait_s:
                await self._tombstones.publish({memory_key(*one): position for one in changed})
            return await self._waited(receipt, position, changed, wait_s, {} if is_own else self._late)

    async def _waited(
        self,
        receipt: MemoryReceiptV1,
        position: int,
        changed: Collection[tuple[str, str]],
        wait_s: float,
        late: Mapping[tuple[str, str], int],
    ) -> MemoryReceiptV1:
        loop, usual_s = asyncio.get_running_loop(), self._settings.acknowledge_ms / 1000
        until = loop.time() + wait_s
        try:
            while True:
                copies = await self._positions()
                if not (lagging := [one for one in copies if one.position < position]):
                    break
                is_over = loop.time() + _POLL_S > until
                if is_over and wait_s >= usual_s:
                    self._late |= {(one.kind, one.copy): position for one in lagging}
                if is_over or any(one.position < late.get((one.kind, one.copy), 0) for one in lagging):
                    kinds = sorted({one.kind for one in lagging}, reverse=True)
                    return receipt.model_copy(update={"pending": True, "pending_in": kinds})
                await asyncio.sleep(_POLL_S)
        except RecordError as error:
            log.warning("the copies' positions cannot be read, so a receipt is pending at %d: %s", position, error)
            return receipt.model_copy(update={"pending": True})
        if changed:
            await self._tombstones.reached(by_number(copies))
        return receipt.model_copy(update={"pending": False})

    async def _positions(self) -> list[CopyPosition]:
        """Every live copy, as of a moment ago: all receipts that wait look together."""
        async with self._looking:
            clock = asyncio.get_running_loop().time
            if clock() - self._looked_at >= _POLL_S:
                self._copies, self._looked_at = await self._tombstones.copies(self._pool), clock()
            return self._copies

    async def _feedback(self, received: Received, time_left_s: float) -> RecallReceiptV1:
        """Stores it, also after the ttl; idempotent. What is about no decision of its tenant is refused."""
        said = await _read(RecallFeedbackV1, received)
        tenant, pool = self._tenant(said.tenant, received.caller), self._pool
        about = tenant, said.decision_id, said.correlation_id
        given = list(said.used), list(said.wrong), said.note, said.actor
        entry = f"entry:{self._settings.prefix}{FEEDBACK_KIND}:{received.entry.id}"
        for _ in range(_TRIES):
            try:
                all_there = await self._are_persisted(int(received.entry.added_at * 1000))
            except (*BUS_AWAY, RedisError):
                all_there = False
            async with borrow(pool, "keeping feedback") as connection:
                if await connection.fetchval(_IS_KNOWN, *about):
                    await connection.execute(_KEEP, *about, *given, entry)
                    return RecallReceiptV1(recorded=True)
            if all_there:
                what = "decision_id" if said.decision_id is not None else "correlation_id"
                raise RefusedMessage(
                    f"payload.{what}: the tenant {tenant!r} has no decision with this id in the log"
                )
            await asyncio.sleep(_PAUSE_S)
        # The message waits, as for a record that is away.
        raise RecordError("the decision that feedback is about is not recorded yet") from TimeoutError()

    def _tenant(self, tenant: str | None, caller: Caller | None) -> str:
        """The tenant, else the default one; RefusedMessage: worker or key does not serve it."""
        name = tenant_of(storable(tenant) if tenant else None, caller, storable(self._settings.default_tenant))
        if not self._settings.serves(name):
            raise RefusedMessage(f"tenant {name!r} is not served here: ORION_TENANTS lists those that are")
        return name


async def answered_once(
    pool: Pool, tenant: str, key: str, request_hash: str, work: Callable[[Connection], Awaitable[MemoryReceiptV1]]
) -> MemoryReceiptV1:
    """The receipt of `work`, kept in the same transaction; the kept one when the key was used before.

    A receipt with an error changes nothing and is not kept. RefusedMessage: the key is another request's.
    """
    async with borrow(pool, "changing memories") as connection, connection.transaction():
        # Under the lock of all outbox writers: no two requests can be first with one key.
        await connection.execute(record_sql.LOCK_OUTBOX)
        found = await connection.fetchrow(_ANSWERED, tenant, key)
        if found is None:
            receipt = await work(connection)
            if receipt.error is None:
                kept = receipt.model_dump(mode="json", exclude_unset=True)
                await connection.execute(_ANSWER, tenant, key, request_hash, kept)
            return receipt
    if found["request_hash"] != request_hash:
        raise RefusedMessage("payload.idempotency_key: it was used for another request: take another key")
    return MemoryReceiptV1.model_validate(found["receipt"])


async def _read(model: type[_Model], received: Received) -> _Model:
    return await read_apart(received.size, partial(read_message, model, received.payload, "payload"))


def _parts(memories: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The memories in their order, in parts of at most 100,000 characters of text, or of one memory."""
    chars = begin = 0
    for place, raw in enumerate(memories):
        chars += len(str(raw.get("text", "")))
        if chars > MAX_TEXT_CHARS and place > begin:
            yield memories[begin:place]
            chars, begin = len(str(raw.get("text", ""))), place
    yield memories[begin:]


def compose_all(
    memories: Sequence[Mapping[str, Any]], settings: Settings, caller: Caller | None = None, *, first: int = 0
) -> list[Memory | MemoryVerdictV1]:
    return [
        _compose_one(raw, f"memories.{index}", settings, caller)
        for index, raw in enumerate(FOREGROUND.throttled(memories, _AT_A_TIME), first)
    ]


def _compose_one(
    raw: Mapping[str, Any], where: str, settings: Settings, caller: Caller | None
) -> Memory | MemoryVerdictV1:
    # Cleaned first: pydantic refuses texts with lone surrogates outright.
    clean = _redacted(storable_json(dict(raw)), settings)
    try:
        message = read_message(MemoryV1, clean, where)
        settings.check_kinds([message.kind] if message.kind else [], f"{where}.kind")
        memory = compose(message, tenant_of(message.tenant, caller, settings.default_tenant))
        if not settings.serves(memory.tenant):
            raise RefusedMessage(f"{where}.tenant: this worker does not serve {memory.tenant!r}")
        return memory
    except MessageError as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 (logged; it must not cost the other memories of the message)
        report("a memory could not be read", error)
        why = f"{where}: it could not be read ({type(error).__name__}): its worker's log says where"
    return _rejected(clean.get("id"), why)


def read_patch(raw: Mapping[str, Any], where: str, settings: Settings) -> Patch | MemoryVerdictV1:
    changes = dict(raw)
    name, version = storable_json(changes.pop("id", None)), changes.pop("expected_version", None)
    try:
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise InvalidMessage(f"{where}.id: expected the id of a memory, of 1 to {_LONGEST_ID} characters")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise InvalidMessage(f"{where}.expected_version: expected a whole number")
        return Patch(id=name, changes=_read_changes(changes, where, settings), expected_version=version)
    except InvalidMessage as error:
        return _rejected(name, str(error))


def _read_changes(raw: Mapping[str, Any], where: str, settings: Settings) -> Mapping[str, Any]:
    """The fields to change; InvalidMessage for one that does not exist or cannot be changed, or for none."""
    # Cleaned first: what is compared with the record is as the record has it.
    changes = cast("dict[str, Any]", storable_json(dict(raw)))
    if not changes:
        raise InvalidMessage(f"{where}: there is nothing to change in it: name a field")
    for field in changes:
        if field in UNCHANGEABLE:
            raise InvalidMessage(f"{where}.{field}: it cannot be changed")
        if field not in CHANGEABLE:
            hint = nearest(field, CHANGEABLE)
            raise InvalidMessage(f"{where}.{field[:60]}: a memory has no such field; {hint}")
    if changes.get("text", "") is None:
        raise InvalidMessage(f"{where}.text: it cannot be cleared: delete the memory instead")
    changes = _redacted(changes, settings)
    if isinstance(changes.get("kind"), str):
        settings.check_kinds([changes["kind"]], f"{where}.kind")
    return changes


def _redacted(fields: dict[str, Any], settings: Settings) -> dict[str, Any]:
    redaction = Redaction.at("store", settings.redact)
    return {name: redaction.json(value) if name in _REDACTED else value for name, value in fields.items()}


def _rejected(name: object, why: str) -> MemoryVerdictV1:
    return MemoryVerdictV1(id=name if isinstance(name, str) else None, status="rejected", reason=why)


def _check_time(time_left_s: float) -> None:
    if time_left_s <= 0:
        raise ExpiredMessage(
            f"the ttl ran out {-time_left_s * 1000:.0f} ms ago: nothing was changed; send it again"
        )


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
    return _receipt_of((), error=ErrorInfo(type="refused", message=why), matched=count)


def _request_hash(kind: str, message: BaseModel) -> str:
    asked = message.model_dump(mode="json", exclude={"reply_to", "idempotency_key", "wait_ms"})
    return hashlib.sha256(json.dumps([kind, asked], sort_keys=True).encode()).hexdigest()


def _receipt_of(
    results: Sequence[MemoryVerdictV1], error: ErrorInfo | None = None, **further: Any
) -> MemoryReceiptV1:
    """The receipt with these verdicts, and how many there are of each."""
    counts = Counter(one.status for one in results if one.status != "matched")
    none = dict.fromkeys(("stored", "unchanged", "conflict", "rejected"), 0)
    return MemoryReceiptV1.model_validate({**none, **counts, **further, "error": error, "results": list(results)})
