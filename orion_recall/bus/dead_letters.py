"""Dead letters: invalid and poison messages, kept with the reason of their failure.

They can be listed, put back on their stream, or left to be trimmed; only a letter that is put back is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel
from redis.asyncio import Redis
from redis.exceptions import WatchError

from orion_recall.bus.envelope import MESSAGE_FIELDS, decode
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.keys import SIGNATURE_FIELD, Key, sign
from orion_recall.contracts import read_message
from orion_recall.errors import BusRefused, InvalidMessage

_ORIGINAL = b"field:"
_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter: the reason, and the fields of its entry; none where they are withheld.

    Of a message that was too large to keep there are its `head`, the `size` of its entry, and a SHA-256.
    """

    id: str
    entry_id: str
    reason: str
    correlation_id: str
    fields: Mapping[bytes, bytes]
    withheld: bool = False
    size: int | None = None
    sha256: str = ""
    head: bytes = b""

    @property
    def is_whole(self) -> bool:
        """Whether it holds the message, so that it can be put back."""
        return not self.withheld and self.size is None


_Rows = list[tuple[bytes, dict[bytes, bytes]]]


class DeadLetters:
    """The dead letters of a stream."""

    def __init__(self, redis: Redis, stream: str) -> None:
        self._redis, self._stream, self._dead_stream = redis, stream, f"{stream}:dead"

    async def latest(self, limit: int = 50) -> list[DeadLetter]:
        rows = cast("_Rows", await self._redis.xrevrange(self._dead_stream, count=limit))
        return [_letter(*row) for row in rows]

    async def get(self, letter_id: str) -> DeadLetter | None:
        """The letter of that id, or of the entry of that id.

        All are read, in small parts: letters hold whole messages, and may be ten thousand.
        """
        first = "-"
        while rows := cast("_Rows", await self._redis.xrange(self._dead_stream, min=first, count=_AT_ONCE)):
            for letter in (_letter(*row) for row in rows):
                if letter_id in (letter.id, letter.entry_id):
                    return letter
            first = f"({rows[-1][0].decode()}"
        return None

    async def requeue(self, letter: DeadLetter, *, key: Key | None = None) -> str | None:
        """Put the entry back at the end of its stream; its new id, or None when somebody else has put it back.

        With a key it is signed anew. InvalidMessage for a letter whose message was not kept, or not as a whole.
        """
        if letter.withheld:
            raise InvalidMessage(
                f"the dead letter {letter.id} holds no message: its worker keeps no query text (ORION_QUERY_TEXT)"
            )
        if letter.size is not None:
            raise InvalidMessage(
                f"the dead letter {letter.id} holds the head of a message of {letter.size} bytes, too large "
                "to keep: its sender must send less"
            )
        fields: dict[Any, Any] = dict(letter.fields) or {b"envelope": b""}
        if key is not None:
            message = next((fields[name] for name in MESSAGE_FIELDS if name in fields), b"")
            fields[SIGNATURE_FIELD] = sign(key, message, stream=self._stream, time=time.time())
        # Watched, since XDEL in a transaction cannot keep the XADD before it from happening.
        async with self._redis.pipeline(transaction=True) as pipeline:
            while True:
                await pipeline.watch(self._dead_stream, self._stream)
                # Nor is it taken back when the XADD fails.
                if await pipeline.type(self._stream) not in (b"stream", b"none"):
                    raise BusRefused(f"{self._stream} is a key of another type: delete or rename it")
                if not await pipeline.xrange(self._dead_stream, min=letter.id, max=letter.id):
                    return None
                pipeline.multi()
                pipeline.xadd(self._stream, fields)
                pipeline.xdel(self._dead_stream, letter.id)
                try:
                    added, _ = await pipeline.execute()
                except WatchError:  # another letter came or went meanwhile
                    continue
                return cast("bytes", added).decode()

    @staticmethod
    def problem(letter: DeadLetter, *, kind: str, payload: type[BaseModel], max_bytes: int) -> str | None:
        """Why the letter's message would be invalid again; None when it is valid. `payload` is the kind's model."""
        entry = Entry(id=letter.entry_id or letter.id, fields=letter.fields)
        received = decode(entry, kind=kind, max_bytes=max_bytes)
        try:
            if received.error is not None:
                raise received.error
            read_message(payload, received.payload, "payload")
        except InvalidMessage as error:
            return str(error)
        return None


def _letter(letter_id: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    def text(name: bytes) -> str:
        return fields.get(name, b"").decode("utf-8", "replace")

    return DeadLetter(
        id=letter_id.decode(),
        entry_id=text(b"entry_id"),
        reason=text(b"reason"),
        correlation_id=text(b"correlation_id"),
        withheld=fields.get(b"message_withheld") == b"1",
        size=int(size) if (size := text(b"message_bytes")).isdigit() else None,
        sha256=text(b"message_sha256"),
        head=fields.get(b"message_head", b""),
        fields={key.removeprefix(_ORIGINAL): value for key, value in fields.items() if key.startswith(_ORIGINAL)},
    )
