"""Signatures within a message, as an executor makes them whose channel has no further fields."""

from __future__ import annotations

import hashlib
import hmac
from uuid import uuid4

from orion_recall.bus.signing.keys import Key

_ZEROS = "0" * 64


def unsigned_line(key: Key, *, time: float) -> str:
    """The value of `orion_signature` in the message, to be completed."""
    return f"v1;key={key.id};time={int(time)};nonce={uuid4().hex};mac={_ZEROS}"


def sign_within(key: Key, message: bytes, line: str, *, stream: str) -> bytes:
    """The message with the code in the line that it holds."""
    head = line.removesuffix(f";mac={_ZEROS}")
    code = hmac.new(key.secret, f"{head}\n{stream}\n".encode() + message, hashlib.sha256).hexdigest()
    return message.replace(line.encode(), f"{head};mac={code}".encode(), 1)
