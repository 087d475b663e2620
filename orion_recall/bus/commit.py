"""The commit of one entry: reply, decision, dead letter and acknowledgement, in one script on the server.

Commit fencing: the script does nothing unless the entry is still pending for this consumer, so a stale owner, whose
entry was claimed by another consumer meanwhile, gets `fenced` and commits nothing. That also makes it harmless to
send a commit twice, and one is sent again after a lost connection until the server has answered. A commit that the
server refuses for now (a stream of another type, no memory left) is retried by `commit_when_possible`. Commits that
are ready at the same time share a pipeline.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, Protocol, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from orion_recall.backoff import BUS_S, Backoff
from orion_recall.bus.bounded.head import MessageHead
from orion_recall.bus.connect import BUS_AWAY
from orion_recall.settings import DECISIONS_GROUP

log = logging.getLogger("orion_recall.bus")

_SCRIPT = files("orion_recall.bus").joinpath("commit.lua").read_text("utf-8")
# Servers before 7.0 know no flags. When their memory is full, answers wait.
_SCRIPT_WITHOUT_FLAGS = _SCRIPT.partition("\n")[2]
_MOST_AT_ONCE = 64

Committed = Literal["committed", "fenced", "reply_not_writable", "stream_not_writable"]
_UNPUBLISHED = 2
_RESULTS: dict[int, Committed] = {
    1: "committed",
    _UNPUBLISHED: "committed",
    0: "fenced",
    -1: "reply_not_writable",
    -2: "stream_not_writable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAddress:
    """The address of a reply. `own` and `shared` are streams; `name` is a stream or a pub/sub channel."""

    mode: Literal["own", "shared", "channel", "none"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Size limits: entries on a reply stream, its time to live in seconds, and decisions while no sink reads.

    Each stream has a limit in bytes, too.
    """

    reply_maxlen: int
    reply_ttl_s: int
    decisions_cap: int
    reply_bytes: int = 64 << 20
    decisions_bytes: int = 512 << 20
    dead_letters_cap: int = 10_000
    dead_letters_bytes: int = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Everything that one commit writes. An empty `decision`, `published` or `dead_reason` means none.

    `published` is the decision as the decision channels carry it.
    A dead letter holds the entry's own fields, unless `keep_message` is False. Of a message that is too large to
    keep it holds the `head`.
    """

    entry_id: str
    address: ReplyAddress
    reply: bytes
    decision: bytes = b""
    published: bytes = b""
    dead_reason: str = ""
    correlation_id: str = ""
    keep_message: bool = True
    head: MessageHead | None = None


class CommitPort(Protocol):
    """Takes commits: a `Committer`, or a fake in tests."""

    async def commit(self, commit: Commit) -> Committed: ...


async def commit_when_possible(port: CommitPort, commit: Commit) -> Committed:
    """Commit, and retry what the server refuses for now; `reply_not_writable` only for a caller's own address.

    Until then the entry stays pending and in flight: it keeps its slot, and waiting never makes it poison.
    """
    backoff = Backoff(*BUS_S)
    while True:
        try:
            result = await port.commit(commit)
        except RedisError as error:
            why = f"the bus refused ({error})"
        else:
            ours = result == "stream_not_writable" or commit.address.mode == "shared"
            if result in ("committed", "fenced") or not ours:
                return result
            why = "one of our own streams is of another type: delete or rename the key"
        if backoff.is_first:
            log.error("entry %s waits for its commit: %s", commit.entry_id, why)
        await backoff.wait()


class Committer:
    """Sends commits for one intake stream and group."""

    def __init__(
        self,
        redis: Redis,
        *,
        stream: str,
        group: str,
        decision_stream: str,
        dead_stream: str,
        limits: Limits,
        decision_channels: Sequence[str] = (),
    ) -> None:
        self._redis = redis
        self._stream, self._group = stream, group
        self._decision_stream, self._dead_stream = decision_stream, dead_stream
        self._limits, self._decision_channels = limits, tuple(decision_channels)
        self._waiting: deque[tuple[Commit, asyncio.Future[Committed]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self.fenced = self.unpublished = 0
        self._script = _SCRIPT
        self._sha = _sha_of(self._script)

    async def commit(self, commit: Commit) -> Committed:
        """The server's answer. Waits for as long as the server is away; RedisError when it refuses."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        result: Committed = await future
        if result == "fenced":
            self.fenced += 1
        return result

    async def _send_all(self) -> None:
        backoff = Backoff(*BUS_S)
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_AT_ONCE))]
            batch = [(commit, future) for commit, future in batch if not future.done()]
            try:
                left = await self._send(batch)
                backoff.reset()
            except BUS_AWAY as error:
                log.warning("%d commits wait: the bus is away (%s)", len(batch), type(error).__name__)
                left = batch
                await backoff.wait()
            except RedisError as error:
                # If the loop ended with the error, these commits would wait for ever.
                left = []
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            self._waiting.extendleft(reversed(left))

    async def _send(
        self, batch: list[tuple[Commit, asyncio.Future[Committed]]]
    ) -> list[tuple[Commit, asyncio.Future[Committed]]]:
        """Send one pipeline; the commits that must be sent again."""
        pipeline = self._redis.pipeline(transaction=False)
        for commit, _ in batch:
            pipeline.evalsha(self._sha, 4, *self._arguments(commit))
        results = cast("list[int | Exception]", await pipeline.execute(raise_on_error=False))
        again: list[tuple[Commit, asyncio.Future[Committed]]] = []
        for (commit, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, NoScriptError):
                again.append((commit, future))
            elif isinstance(result, BUS_AWAY):
                raise result
            elif isinstance(result, Exception):
                future.set_exception(result)
            else:
                self._note_unpublished(result)
                future.set_result(_RESULTS[result])
        if again:
            await self._load()
        return again

    async def _load(self) -> None:
        try:
            await self._redis.script_load(self._script)
        except ResponseError as error:
            if self._script is _SCRIPT_WITHOUT_FLAGS or "compiling script" not in str(error):
                raise
            self._script, self._sha = _SCRIPT_WITHOUT_FLAGS, _sha_of(_SCRIPT_WITHOUT_FLAGS)
            await self._redis.script_load(self._script)

    def _note_unpublished(self, result: int) -> None:
        if result != _UNPUBLISHED:
            return
        if self.unpublished == 0:
            log.error(
                "decisions cannot be published on all of %s: let the worker's user publish there, or change "
                "ORION_DECISION_CHANNELS",
                ", ".join(self._decision_channels),
            )
        self.unpublished += 1

    def _arguments(self, commit: Commit) -> tuple[str | bytes | int, ...]:
        address, limits, head = commit.address, self._limits, commit.head
        is_stream = address.mode in ("own", "shared")
        return (
            self._stream,
            address.name if is_stream else self._decision_stream,
            self._decision_stream,
            self._dead_stream,
            self._group,
            commit.entry_id,
            address.mode,
            commit.reply,
            limits.reply_maxlen,
            limits.reply_ttl_s,
            "" if is_stream else address.name,
            commit.decision,
            limits.decisions_cap,
            commit.dead_reason,
            commit.correlation_id.encode("utf-8", "replace"),
            int(commit.keep_message),
            DECISIONS_GROUP,
            commit.published,
            limits.reply_bytes,
            limits.decisions_bytes,
            limits.dead_letters_cap,
            limits.dead_letters_bytes,
            "" if head is None else head.size,
            "" if head is None else head.sha256,
            b"" if head is None else head.head,
            *self._decision_channels,
        )


def _sha_of(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
