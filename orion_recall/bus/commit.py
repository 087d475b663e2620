"""The commit of one entry: reply, decision, dead letter and acknowledgement, in one script on the server.

Commit fencing: the script does nothing unless the entry is still pending for this consumer, so a stale owner, whose
entry was claimed by another consumer meanwhile, gets `fenced` and commits nothing. That also makes it harmless to
send a commit twice, and one is sent again after a lost connection until the server has answered. A commit that the
server refuses for now (a stream of another type, no memory left) is retried by `commit_when_possible`. Commits that
are ready at the same time share a call of the script, which takes them one after the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, Protocol

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError

from orion_recall.bus.connect import BUS_AWAY
from orion_recall.settings import DECISIONS_GROUP, RECALL_GROUP, Settings
from orion_recall.tasks import BUS_S, Backoff

log = logging.getLogger("orion_recall.bus")


KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHead:
    """The first bytes of a message, the bytes of its whole entry, and a SHA-256 of the message."""

    head: bytes
    size: int
    sha256: str

    @classmethod
    def of(cls, raw: bytes, *, size: int) -> MessageHead:
        return cls(head=raw[:KEPT_BYTES], size=size, sha256=hashlib.sha256(raw).hexdigest())


_SCRIPT = files("orion_recall.bus").joinpath("commit.lua").read_text("utf-8")
# The server does nothing else meanwhile: a commit takes it some twenty microseconds.
_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE = 64, 1 << 20

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
        except NoPermissionError as error:
            if commit.address.mode == "own" and " key" in str(error):
                return "reply_not_writable"  # our own streams are as their operator wants them, or mended by him
            why = f"the bus refused ({error})"
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


_Waiting = tuple[Commit, asyncio.Future[Committed]]


class Committer:
    """Sends commits for one intake stream. Replies, decisions and dead letters are kept as the settings say."""

    def __init__(self, redis: Redis, settings: Settings, stream: str) -> None:
        self._script, self._decision_stream = redis.register_script(_SCRIPT), settings.decision_stream
        self._channels = settings.published_on["decisions"]
        self._keys = (stream, settings.decision_stream, f"{stream}:dead")
        self._values: tuple[str | int, ...] = (
            *(RECALL_GROUP, settings.reply_maxlen, settings.reply_ttl_s, settings.decisions_cap, DECISIONS_GROUP),
            *(settings.reply_bytes, settings.decisions_bytes),
            *(settings.dead_letters_cap, settings.dead_letters_bytes),
            *(len(self._channels), *self._channels),
        )
        self._waiting: deque[_Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._alone = 0  # commits that are sent each alone, after the bus was away
        self.fenced = self.unpublished = 0

    async def commit(self, commit: Commit) -> Committed:
        """The server's answer. Waits for as long as the server is away; RedisError when it refuses."""
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._waiting.append((commit, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        result = await future
        self.fenced += result == "fenced"
        return result

    async def _send_all(self) -> None:
        backoff = Backoff(*BUS_S)
        while self._waiting:
            batch = self._next()
            if not batch:
                continue
            try:
                left = await self._send(batch)
                backoff.reset()
            except BUS_AWAY as error:
                log.warning("%d commits wait: the bus is away (%s)", len(batch), type(error).__name__)
                left = []
                # The server may be there, and end the connection for one of them: the others go first, and alone.
                self._waiting.extend(batch)
                self._alone = len(self._waiting)
                await backoff.wait()
            except RedisError as error:
                # If the loop ended with the error, these commits would wait for ever.
                left = []
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            self._waiting.extendleft(reversed(left))

    def _next(self) -> list[_Waiting]:
        """What is sent next: as much as may be sent at once, and one at least; nothing whose caller has gone."""
        batch: list[_Waiting] = []
        size = 0
        most = 1 if self._alone else _MOST_AT_ONCE
        while self._waiting and len(batch) < most:
            self._alone = max(0, self._alone - 1)
            commit, future = self._waiting[0]
            size += len(commit.reply) + len(commit.decision) + len(commit.published)
            if batch and size > _MOST_BYTES_AT_ONCE:
                break
            self._waiting.popleft()
            if not future.done():
                batch.append((commit, future))
        return batch

    async def _send(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Send some commits; those that must be sent again. What the server refuses is told to its caller alone."""
        try:
            results = await self._call([commit for commit, _ in batch])
        except BUS_AWAY:
            raise
        except RedisError as error:
            if len(batch) > 1:  # it may be about one of them, whose address an access list closes to us
                for waiting in batch:
                    await self._send([waiting])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return []
        for (_, future), result in zip(batch, results, strict=False):
            if result == _UNPUBLISHED:
                if self.unpublished == 0:
                    log.error(
                        "decisions cannot be published on all of %s: let the worker's user publish there, or "
                        "change ORION_DECISION_CHANNELS",
                        ", ".join(self._channels),
                    )
                self.unpublished += 1
            if not future.done():
                future.set_result(_RESULTS[result])
        left = batch[len(results) :]
        if left:  # the script stopped at the first of them
            await self._send([left.pop(0)])
        return left

    async def _call(self, commits: Sequence[Commit]) -> list[int]:
        """The server's answers; a script that the server does not know is loaded.

        Here, and not by who sends a batch: that may be refused before the server looks for the script.
        """
        keys, values = [*self._keys], list[str | bytes | int](self._values)
        for commit in commits:
            is_stream = commit.address.mode in ("own", "shared")
            keys.append(commit.address.name if is_stream else self._decision_stream)
            values += (commit.entry_id, commit.address.mode, commit.reply, commit.decision, *_more(commit))
        return await self._script(keys=keys, args=values)


def _more(commit: Commit) -> tuple[str | bytes | int, ...]:
    if commit.address.mode != "channel" and not commit.dead_reason and not commit.published:
        return ("",)
    head = commit.head
    return (
        "1",
        commit.address.name,
        commit.dead_reason,
        commit.correlation_id.encode("utf-8", "replace"),
        int(commit.keep_message),
        commit.published,
        "" if head is None else head.size,
        "" if head is None else head.sha256,
        b"" if head is None else head.head,
    )
