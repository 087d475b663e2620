"""Calls over the bus: sends each message once, and receives all replies on one reply stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack, cast
from uuid import UUID, uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import caller_error, connect, is_refusal, without_secrets
from orion_recall.bus.envelope import encode_request
from orion_recall.bus.signing.keys import SIGNATURE_FIELD, read_key, sign
from orion_recall.contracts.fields import causality_links
from orion_recall.contracts.recall import QUERY_KIND, REPLY_KIND
from orion_recall.errors import BusRefused, BusUnavailable, InvalidMessage, ReplyTimeout
from orion_recall.tasks import BUS_S, Backoff
from orion_recall.text.ids import new_id

log = logging.getLogger("orion_recall.client")
_BLOCK_MS = 1000
# The longest time to live that a worker reads.
_LONGEST_TIMEOUT_S = 2**53 // 1000


class _Call(NamedTuple):
    kind: str
    created_at: datetime
    reply: asyncio.Future[Mapping[str, Any]]


class ConnectOptions(TypedDict, total=False):
    """Options of a client, as `RecallClient.connect` describes them."""

    prefix: str
    service: str
    max_message_bytes: int
    max_query_bytes: int
    key: Path | str | None


class TraceOptions(TypedDict, total=False):
    trace: Mapping[str, Any] | None
    causality_chain: Sequence[Mapping[str, Any]]


class CallOptions(TraceOptions, total=False):
    """Options of one call, as `RecallClient` describes them."""

    correlation_id: UUID | str | None


class Calls:
    """Calls in flight from one caller. The reply stream is deleted when it closes."""

    def __init__(
        self,
        redis: Redis,
        blocking: Redis,
        *,
        prefix: str = "",
        service: str = "orion-recall-client",
        max_message_bytes: int = 8_388_608,
        max_query_bytes: int = 262_144,
        key: Path | str | None = None,
    ) -> None:
        self._redis, self._blocking = redis, blocking
        self._prefix, self._service = prefix, service
        self._max_message_bytes, self._max_query_bytes = max_message_bytes, max_query_bytes
        key = key or os.environ.get("ORION_KEY")
        self._key = read_key(Path(key)) if key else None
        self.reply_stream = f"{self._prefix}{REPLY_KIND}:{uuid4().hex}"
        self._in_flight: dict[str, _Call] = {}
        self._last_created_at = datetime.min.replace(tzinfo=UTC)
        self._unreadable: str | None = None  # the reason while replies cannot be read
        self._is_closed = False

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, url: str, **options: Unpack[ConnectOptions]) -> AsyncGenerator[Calls]:
        """A connected caller; BusUnavailable when the server does not answer, BusRefused when it denies access."""
        async with connect(url) as redis, connect(url, blocking=True) as blocking:
            calls = cls(redis, blocking, **options)
            try:
                await redis.ping()  # pyright: ignore[reportUnknownMemberType]
            except (RedisError, OSError) as error:
                kind = BusRefused if is_refusal(error) else BusUnavailable
                raise kind(f"no bus at {without_secrets(url)}: {error}") from error
            reader = asyncio.create_task(calls._read())
            try:
                yield calls
            finally:
                calls._is_closed = True
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                calls.fail(BusUnavailable("the client was closed before the reply came"))
                with contextlib.suppress(RedisError, OSError):
                    await redis.unlink(calls.reply_stream)

    async def call(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        timeout_s: float,
        correlation_id: UUID | str | None = None,
        trace: Mapping[str, Any] | None = None,
        causality_chain: Sequence[Mapping[str, Any]] = (),
    ) -> Mapping[str, Any]:
        """The payload of the reply. Raises InvalidMessage before anything is sent, ReplyTimeout, BusUnavailable."""
        if self._is_closed:  # its connections would be opened again, and nobody would read the reply
            raise BusUnavailable("the client is closed")
        name, ttl_ms = self._name(correlation_id), _ttl_ms(timeout_s)
        call = _Call(kind, self._now(), asyncio.get_running_loop().create_future())
        message = encode_request(
            kind,
            payload,
            correlation_id=name,
            source={"name": self._service},
            reply_to=self.reply_stream,
            ttl_ms=ttl_ms,
            trace=trace,
            causality_chain=causality_links(causality_chain),
            created_at=call.created_at,
        )
        most = self._max_query_bytes if kind == QUERY_KIND else self._max_message_bytes
        if len(message) > most:
            raise InvalidMessage(
                f"the message has {len(message)} bytes, and workers read {most} at most: send less"
            )
        if self._unreadable is not None:
            raise BusRefused(self._unreadable)
        self._in_flight[name] = call
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    await self._redis.xadd(self._prefix + kind, self._fields(self._prefix + kind, message))
                except (RedisError, OSError) as error:
                    raise caller_error(error, f"to take {kind}") from error
                return await call.reply
        except TimeoutError as error:
            raise ReplyTimeout(
                f"no reply to {kind} within {timeout_s:g} s: is a worker running on this bus? `orion-recall "
                "status` says, and `orion-recall decisions list` shows a query that was refused or came too late"
            ) from error
        finally:
            del self._in_flight[name]
            call.reply.cancel()  # where sending failed first, an error that was set is not reported as unheard

    def fail(self, error: BusUnavailable) -> None:
        for call in self._in_flight.values():
            if not call.reply.done():
                call.reply.set_exception(type(error)(str(error)))

    def _fields(self, stream: str, message: bytes) -> dict[Any, Any]:
        fields: dict[Any, Any] = {"envelope": message}
        if self._key is not None:
            fields[SIGNATURE_FIELD] = sign(self._key, message, stream=stream, time=time.time())
        return fields

    def _name(self, given: object) -> str:
        if given is None:
            return new_id()
        name = str(given) if isinstance(given, str | UUID) else ""
        if not name:
            raise InvalidMessage(f"correlation_id: expected a UUID, or text that is not empty (got {given!r:.60})")
        if name in self._in_flight:
            raise InvalidMessage(
                f"correlation_id: a call with {name[:60]!r} is in flight: wait for its reply, or use another client"
            )
        return name

    def _now(self) -> datetime:
        """The time, never the same twice: it distinguishes messages with the same correlation id."""
        now = max(datetime.now(UTC), self._last_created_at + timedelta(microseconds=1))
        self._last_created_at = now
        return now

    async def _read(self) -> None:
        last = "0"
        backoff = Backoff(*BUS_S)
        while True:
            try:
                found = cast(
                    "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
                    await self._blocking.xread({self.reply_stream: last}, count=100, block=_BLOCK_MS),
                )
                self._unreadable = None
                rows = [row for _, part in found or [] for row in part]
                for _, fields in rows:
                    self._deliver(fields)
                if rows:
                    last = rows[-1][0].decode()
                    await self._delete([row[0] for row in rows])
                backoff.reset()
            except (RedisError, OSError) as error:
                log.debug("reading replies: %s; trying again", error)
                if is_refusal(error):
                    refused = caller_error(error, "to give replies")
                    self._unreadable = str(refused)
                    self.fail(refused)
                last = "0"  # a server that comes back may count anew
                await backoff.wait()

    async def _delete(self, ids: Sequence[bytes]) -> None:
        try:
            await self._redis.xdel(self.reply_stream, *ids)
        except (RedisError, OSError) as error:
            if not is_refusal(error):
                raise
            log.debug("replies that were read stay on their stream until it expires: %s", error)

    def _deliver(self, fields: Mapping[bytes, bytes]) -> None:
        try:
            envelope = json.loads(fields[b"envelope"])
            call = self._in_flight.get(envelope["correlation_id"])
            payload = envelope["payload"]
            if call is None or call.reply.done() or _is_of_another(envelope, call):
                return
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("a reply could not be read: %s", error)
            return
        call.reply.set_result(payload)


def _ttl_ms(timeout_s: object) -> int:
    # Compared so that NaN is refused, too. A negative time-out is over at once, and no error.
    if (
        not isinstance(timeout_s, int | float)
        or isinstance(timeout_s, bool)
        or not -_LONGEST_TIMEOUT_S <= timeout_s <= _LONGEST_TIMEOUT_S
    ):
        raise InvalidMessage(
            f"timeout_s: expected a number of seconds, at most {_LONGEST_TIMEOUT_S} (got {timeout_s!r:.60})"
        )
    return max(1, int(timeout_s * 1000))


def _is_of_another(envelope: Mapping[str, Any], call: _Call) -> bool:
    """Whether the reply answers an earlier message of ours with the same correlation id.

    The last link of its causality chain is that message; else the caller's own last link, of another correlation.
    """
    chain = envelope.get("causality_chain")
    link = cast("object", chain[-1]) if isinstance(chain, list) and chain else None
    if not isinstance(link, dict):
        return False
    fields = cast("dict[str, object]", link)
    created_at = fields.get("created_at")
    is_ours = (fields.get("kind"), fields.get("correlation_id")) == (call.kind, envelope["correlation_id"])
    if not is_ours or not isinstance(created_at, str):
        return False
    return datetime.fromisoformat(created_at) != call.created_at
