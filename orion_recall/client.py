"""The client: ask and remember over the bus, with any number of calls in flight on one reply stream.

async with RecallClient.connect("redis://localhost:6379") as client:
    reply = await client.recall("what did Ana say about the harbour?", profile="reflect.v1")
    prompt = reply.bundle.rendered
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar, cast
from uuid import uuid4

from pydantic import BaseModel
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import BUS_AWAY, connect, without_secrets
from orion_recall.bus.envelope import encode_request
from orion_recall.contracts import (
    DELETE_KIND,
    FEEDBACK_KIND,
    QUERY_KIND,
    REPLY_KIND,
    STORE_KIND,
    UPDATE_KIND,
    MemoryDeleteV1,
    MemoryReceiptV1,
    MemoryUpdateV1,
    RecallFeedbackV1,
    RecallQueryV1,
    RecallReceiptV1,
    RecallReplyV1,
    read_message,
)
from orion_recall.errors import BusUnavailable, InvalidMessage, ReplyTimeout

log = logging.getLogger("orion_recall.client")
Reply = TypeVar("Reply", bound=BaseModel)
_BLOCK_MS = 1000


class RecallClient:
    """Calls orion-recall over the bus. One reply stream per client, deleted when the client closes."""

    def __init__(self, redis: Redis, blocking: Redis, *, prefix: str, service: str, max_message_bytes: int) -> None:
        self._redis, self._blocking, self._max_bytes = redis, blocking, max_message_bytes
        self._prefix, self._source = prefix, {"name": service}
        self.reply_stream = f"{prefix}{REPLY_KIND}:{uuid4().hex}"
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls,
        url: str,
        *,
        prefix: str = "",
        service: str = "orion-recall-client",
        max_message_bytes: int = 8_388_608,
    ) -> AsyncGenerator[RecallClient]:
        """A connected client; BusUnavailable when the server does not answer.

        A message of more than `max_message_bytes` is not sent: a worker that does not read it cannot see whom to
        answer. Workers have it as ORION_MAX_MESSAGE_BYTES.
        """
        redis, blocking = connect(url), connect(url, blocking=True)
        client = cls(redis, blocking, prefix=prefix, service=service, max_message_bytes=max_message_bytes)
        try:
            try:
                await redis.ping()  # pyright: ignore[reportUnknownMemberType]
            except BUS_AWAY as error:
                raise BusUnavailable(f"no bus at {without_secrets(url)}: {error}") from error
            reader = asyncio.create_task(client._read())
            try:
                yield client
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                client._give_up()
                with contextlib.suppress(*BUS_AWAY):
                    await redis.unlink(client.reply_stream)
        finally:
            await redis.aclose()
            await blocking.aclose()

    async def recall(
        self,
        query: str | RecallQueryV1,
        *,
        timeout_s: float = 10.0,
        trace: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> RecallReplyV1:
        """The reply to one query. `fields` are those of RecallQueryV1 (session_id, profile, options, …).

        Raises InvalidMessage before anything is sent, ReplyTimeout, BusUnavailable. An answered error (expired,
        refused, …) is no exception: it is `reply.error`.
        """
        if isinstance(query, str):
            query = read_message(RecallQueryV1, {"fragment": query, **fields}, "query")
        payload = query.model_dump(mode="json", exclude_unset=True)
        return await self._call(QUERY_KIND, payload, RecallReplyV1, timeout_s=timeout_s, trace=trace)

    async def store(self, memories: Sequence[Mapping[str, Any]], *, timeout_s: float = 60.0) -> MemoryReceiptV1:
        """The receipt for a batch of memories, each a mapping of MemoryV1's fields (times with a zone)."""
        payload = {"memories": [dict(memory) for memory in memories]}
        return await self._call(STORE_KIND, payload, MemoryReceiptV1, timeout_s=timeout_s, trace=None)

    async def update(
        self,
        memories: Sequence[Mapping[str, Any]] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        set: Mapping[str, Any] | None = None,
        timeout_s: float = 60.0,
        **fields: Any,
    ) -> MemoryReceiptV1:
        """The receipt for changes: of each memory by `id`, or by `set` of all that `where` matches.

        `fields` are further ones of MemoryUpdateV1: tenant, actor, idempotency_key, expected_count (without it
        `where` is a dry run). None clears a field of a memory. Raises as `recall` does.
        """
        given = {"memories": memories, "where": where, "set": set, **fields}
        return await self._change(UPDATE_KIND, MemoryUpdateV1, given, timeout_s)

    async def delete(
        self,
        ids: Sequence[str] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        timeout_s: float = 60.0,
        **fields: Any,
    ) -> MemoryReceiptV1:
        """The receipt for deletions, by id or by what `where` matches.

        `fields` are further ones of MemoryDeleteV1: tenant, actor, reason, erase, idempotency_key, expected_count
        (without it `where` is a dry run). `receipt.pending` is False once nothing shows them any more. Raises as
        `recall` does.
        """
        return await self._change(DELETE_KIND, MemoryDeleteV1, {"ids": ids, "where": where, **fields}, timeout_s)

    async def feedback(self, *, timeout_s: float = 10.0, **fields: Any) -> RecallReceiptV1:
        """Says what a recall was worth; `fields` are those of RecallFeedbackV1 (decision_id, used, wrong, …)."""
        payload = _read(RecallFeedbackV1, fields)
        return await self._call(FEEDBACK_KIND, payload, RecallReceiptV1, timeout_s=timeout_s, trace=None)

    async def _change(
        self, kind: str, model: type[BaseModel], given: Mapping[str, Any], timeout_s: float
    ) -> MemoryReceiptV1:
        payload = _read(model, {name: value for name, value in given.items() if value is not None})
        return await self._call(kind, payload, MemoryReceiptV1, timeout_s=timeout_s, trace=None)

    async def _call(
        self,
        kind: str,
        payload: Mapping[str, Any],
        model: type[Reply],
        *,
        timeout_s: float,
        trace: Mapping[str, Any] | None,
    ) -> Reply:
        correlation_id = uuid4().hex
        message = encode_request(
            kind,
            payload,
            correlation_id=correlation_id,
            source=self._source,
            reply_to=self.reply_stream,
            ttl_ms=max(1, int(timeout_s * 1000)),
            trace=trace,
        )
        if len(message) > self._max_bytes:
            raise InvalidMessage(
                f"the message has {len(message)} bytes, and workers read {self._max_bytes} at most: send less"
            )
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        try:
            async with asyncio.timeout(timeout_s):
                await self._redis.xadd(self._prefix + kind, {"envelope": message})
                answer = await future
        except TimeoutError as error:
            raise ReplyTimeout(
                f"no reply to {kind} within {timeout_s:g} s: is a worker running on this bus?"
            ) from error
        except BUS_AWAY as error:
            raise BusUnavailable(f"the bus is away: {error}") from error
        finally:
            del self._waiting[correlation_id]
        return read_message(model, answer, "reply")

    def _give_up(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BusUnavailable("the client was closed before the reply came"))

    async def _read(self) -> None:
        last = "0"
        pause_s = 0.05
        while True:
            try:
                found = cast(
                    "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
                    await self._blocking.xread({self.reply_stream: last}, count=100, block=_BLOCK_MS),
                )
                rows = [row for _, part in found or [] for row in part]
                for _, fields in rows:
                    self._deliver(fields)
                if rows:
                    last = rows[-1][0].decode()
                    await self._redis.xdel(self.reply_stream, *[row[0] for row in rows])
                pause_s = 0.05
            except (*BUS_AWAY, RedisError) as error:
                log.debug("reading replies: %s; trying again", error)
                last = "0"
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 2.0)

    def _deliver(self, fields: Mapping[bytes, bytes]) -> None:
        try:
            envelope = json.loads(fields[b"envelope"])
            future = self._waiting.get(envelope["correlation_id"])
            payload = envelope["payload"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("a reply could not be read: %s", error)
            return
        if future is not None and not future.done():
            future.set_result(payload)


def _read(model: type[BaseModel], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields as JSON; InvalidMessage when they are no such message, so that nothing is sent."""
    return read_message(model, fields, "message").model_dump(mode="json", exclude_unset=True)
