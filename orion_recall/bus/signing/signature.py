"""The signature of a message: an HMAC (SHA-256) over its raw bytes, as one line of text.

It stands in the field `signature` of the stream entry, beside `envelope`. A message on a channel has no such field:
there it is the value of `orion_signature` within the message itself, best in `trace`, which belongs to the caller
and which every reader takes. The code is then made over the bytes of the message with zeros in the code's place.

Signed are the key, the time, the nonce, the name of the stream and every byte of the message: nobody can change one
of them, send it to another stream, or take the reply elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from uuid import uuid4

SIGNATURE_FIELD = b"signature"
# Within a message: the name of the member that holds the signature.
SIGNATURE_MEMBER = "orion_signature"
_CODE_LENGTH = 64
_ZEROS = "0" * _CODE_LENGTH
_TEXT = r"v1;key=([\w.-]{1,64});time=(\d{1,11});nonce=([\w.-]{16,64});mac=([0-9a-f]{64})"
_WHOLE = re.compile(_TEXT, re.ASCII)
# In a text of the payload the quotes would be escaped, and so not be found.
_WITHIN = re.compile(rf'"{SIGNATURE_MEMBER}"\s*:\s*"{_TEXT}"'.encode(), re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a caller signs with: the id of its key, and the secret."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature as it was read: key id, epoch seconds, nonce, code, and the bytes that the code is made over."""

    key_id: str
    time: int
    nonce: str
    code: str
    signed: bytes

    def is_by(self, secret: bytes, *, stream: str) -> bool:
        """Whether that secret made it, for this stream."""
        made = _code(secret, _head(self.key_id, self.time, self.nonce), stream, self.signed)
        return hmac.compare_digest(made, self.code)


def sign(key: Key, message: bytes, *, stream: str, time: float) -> bytes:
    """The value of the field `signature` for the bytes of the field `envelope`. `stream` has its prefix."""
    head = _head(key.id, int(time), uuid4().hex)
    return f"{head};mac={_code(key.secret, head, stream, message)}".encode()


def unsigned_line(key: Key, *, time: float) -> str:
    """The signature to put into a message as `orion_signature`, for `sign_within` to complete."""
    return f"{_head(key.id, int(time), uuid4().hex)};mac={_ZEROS}"


def sign_within(key: Key, message: bytes, line: str, *, stream: str) -> bytes:
    """The message with the code in the `line` that it holds; nothing else in it changes."""
    head = line.removesuffix(f";mac={_ZEROS}")
    return message.replace(line.encode(), f"{head};mac={_code(key.secret, head, stream, message)}".encode(), 1)


def read_signature(field: bytes | None, message: bytes) -> Signature | None:
    """The signature of a message: its `field`, else the one within it; None where there is none, or several."""
    if field is not None:
        found = _WHOLE.fullmatch(field[:512].decode("ascii", "replace"))
        return None if found is None else _signature(found.groups(), message)
    within = list(_WITHIN.finditer(message))
    if len(within) != 1:
        return None
    start, end = within[0].span(4)
    blank = b"".join((message[:start], _ZEROS.encode(), message[end:]))
    return _signature(tuple(part.decode() for part in within[0].groups()), blank)


def _signature(parts: tuple[str, ...], signed: bytes) -> Signature:
    key_id, time, nonce, code = parts
    return Signature(key_id=key_id, time=int(time), nonce=nonce, code=code, signed=signed)


def _head(key_id: str, time: int, nonce: str) -> str:
    return f"v1;key={key_id};time={time};nonce={nonce}"


def _code(secret: bytes, head: str, stream: str, message: bytes) -> str:
    made = hmac.new(secret, f"{head}\n{stream}\n".encode("utf-8", "surrogatepass"), hashlib.sha256)
    made.update(message)
    return made.hexdigest()
