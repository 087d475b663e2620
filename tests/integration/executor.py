"""An executor of the mesh as anybody would write one: plain Redis commands and JSON, nothing of ours."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from redis.asyncio import Redis

Fields = Mapping[Any, str | bytes]
Row = tuple[str, dict[bytes, bytes]]


async def until(condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 60) -> None:
    """Returns as soon as the condition holds; fails with `what` when it does not in time."""
    deadline, pause_s = time.monotonic() + timeout_s, 0.005
    while not await condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.05)  # who waits long asks less often: it takes time from what is waited for


async def command(redis: Redis, *parts: str | int | bytes) -> Any:
    """The server's answer to a command, as redis-py parses it."""
    return cast("Any", await redis.execute_command(*parts))  # pyright: ignore[reportUnknownMemberType]


async def info(redis: Redis, section: str) -> dict[str, Any]:
    """One section of INFO."""
    return await command(redis, "INFO", section)


async def server_ms(redis: Redis) -> int:
    """Milliseconds since the epoch by the server's clock, as in entry ids."""
    seconds, micros = await command(redis, "TIME")
    return seconds * 1000 + micros // 1000


async def pending(redis: Redis, stream: str, group: str = "orion-recall") -> dict[str, int]:
    """How often each entry was delivered that is pending in the group, by its id."""
    found = cast("list[dict[str, Any]]", await redis.xpending_range(stream, group, min="-", max="+", count=100))
    return {entry["message_id"].decode(): entry["times_delivered"] for entry in found}


async def rows(redis: Redis, stream: str, since: str = "-") -> list[Row]:
    """The entries of a stream from the id `since` on; none when the key is no stream."""
    if cast("bytes", await redis.type(stream)) != b"stream":
        return []
    found = cast("list[tuple[bytes, dict[bytes, bytes]]]", await redis.xrange(stream, min=since))
    return [(entry_id.decode(), fields) for entry_id, fields in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """All that one query led to: its replies by stream, its decisions' payloads, its dead letters."""

    own: list[dict[str, Any]]
    shared: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    letters: list[dict[bytes, bytes]]

    @property
    def decision(self) -> dict[str, Any]:
        """The one decision there is."""
        assert len(self.decisions) == 1
        return self.decisions[0]

    @property
    def reply(self) -> dict[str, Any]:
        """The envelope of the one reply there is, wherever it went."""
        assert len(self.own) + len(self.shared) == 1
        return (self.own or self.shared)[0]


class Executor:
    """Asks under one prefix, one query at a time, and looks at everything that comes of it."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis, self.prefix = redis, prefix
        self.queries = f"{prefix}recall.query.v1"
        self.decisions = f"{prefix}recall.decision.v1"
        self.shared = f"{prefix}recall.reply.v1"
        self.dead = f"{prefix}recall.query.v1:dead"
        self.reply_to = f"{prefix}recall.reply.v1:exec-{uuid4().hex}"

    async def add(self, fields: Fields, *, stream: str | None = None, entry_id: str = "*") -> str:
        """XADD as it is; the entry's id."""
        added: Any = await self.redis.xadd(stream or self.queries, cast("Any", dict(fields)), id=entry_id)
        return cast("bytes", added).decode()

    def message(self, payload: object, **envelope: Any) -> dict[str, Any]:
        """An envelope with long names and this executor's reply address; `envelope` wins, None leaves out."""
        whole = {
            "schema": "orion.envelope",
            "schema_version": "2.0.0",
            "id": str(uuid4()),
            "correlation_id": f"c-{uuid4().hex}",
            "kind": "recall.query.v1",
            "source": {"name": "executor"},
            "reply_to": self.reply_to,
            "payload": payload,
        }
        return {name: value for name, value in (whole | envelope).items() if value is not None}

    async def ask(self, payload: object, **envelope: Any) -> str:
        """Send one query; the entry's id."""
        return await self.add({"envelope": json.dumps(self.message(payload, **envelope))})

    async def answer(self, payload: object, **envelope: Any) -> dict[str, Any]:
        """The payload of the one reply to one query."""
        ended = await self.ended(await self.ask(payload, **envelope))
        return ended.reply["payload"]

    async def ended(self, entry_id: str) -> Ended:
        """What the query led to, once it has been decided. Decision and reply come in one step."""

        async def decided() -> bool:
            return bool(await self._decisions(entry_id))

        await until(decided, f"a decision on {entry_id}")
        still_there = await self.redis.xrange(self.queries, min=entry_id, max=entry_id)
        assert not still_there, "an answered entry is deleted"
        letters = [fields for _, fields in await rows(self.redis, self.dead, entry_id)]
        return Ended(
            own=await self.replies(self.reply_to, entry_id),
            shared=await self.replies(self.shared, entry_id),
            decisions=await self._decisions(entry_id),
            letters=[fields for fields in letters if fields[b"entry_id"] == entry_id.encode()],
        )

    async def replies(self, stream: str, since: str = "-") -> list[dict[str, Any]]:
        """The envelopes on a reply stream."""
        return [json.loads(fields[b"envelope"]) for _, fields in await rows(self.redis, stream, since)]

    async def _decisions(self, entry_id: str) -> list[dict[str, Any]]:
        found = [json.loads(fields[b"envelope"]) for _, fields in await rows(self.redis, self.decisions, entry_id)]
        return [envelope["payload"] for envelope in found if envelope["payload"]["entry_id"] == entry_id]

    @asynccontextmanager
    async def listening(self, channel: str) -> AsyncGenerator[list[dict[str, Any]]]:
        """What is published on the channel, while the block runs."""
        heard: list[dict[str, Any]] = []
        pubsub = self.redis.pubsub()  # pyright: ignore[reportUnknownMemberType]

        async def listen() -> None:
            async for message in pubsub.listen():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                if message["type"] == "message":
                    heard.append(json.loads(cast("bytes", message["data"])))

        await pubsub.subscribe(channel)  # pyright: ignore[reportUnknownMemberType]
        task = asyncio.create_task(listen())
        try:
            yield heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await pubsub.aclose()

    async def hand_to_a_dead_worker(
        self, fields: Fields, *, deliveries: int = 1, stream: str | None = None, group: str = "orion-recall"
    ) -> str:
        """Add an entry that a consumer, silent for a minute now, has taken that many times."""
        stream = stream or self.queries
        pipeline = self.redis.pipeline(transaction=True)
        pipeline.xadd(stream, cast("Any", dict(fields)))
        pipeline.xreadgroup(group, "ghost", {stream: ">"}, count=1)
        added, _ = await pipeline.execute()
        entry_id = cast("bytes", added).decode()
        await self.redis.xclaim(
            stream, group, "ghost", 0, [entry_id], idle=60_000, retrycount=deliveries, justid=True
        )
        return entry_id

    async def close(self) -> None:
        """Delete the reply stream, as a good client does."""
        await self.redis.unlink(self.reply_to)
