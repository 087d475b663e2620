"""The head of a message that is too large to keep: what its dead letter holds in its place."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHead:
    """The first bytes of a message, the bytes of its whole entry, and a SHA-256 of the message."""

    head: bytes
    size: int
    sha256: str


def head_of(fields: Mapping[bytes, bytes], *, size: int, names: tuple[bytes, ...]) -> MessageHead:
    """The head of an entry of `size` bytes, whose message is in the first field that there is of `names`."""
    raw = next((fields[name] for name in names if name in fields), b"")
    return MessageHead(head=raw[:KEPT_BYTES], size=size, sha256=hashlib.sha256(raw).hexdigest())
