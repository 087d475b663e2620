"""The JSON object of a message, read in memory of a few times its bytes.

Small messages are read by the standard library, which reads more than is JSON and says what. Large ones are read
from their bytes: the standard library would first make a text of them, which may take four times the memory, and
hold that beside what it reads from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic_core import from_json

from orion_recall.bus.bounded.limits import ON_LOOP_BYTES, has_more_values, most_values
from orion_recall.bus.bounded.sender import sender_of_message
from orion_recall.errors import InvalidMessage

# Deeper than any valid message, and far from where walking or writing it would exhaust the stack.
_MOST_LEVELS = 100
TOO_DEEP = f"the message is nested more than {_MOST_LEVELS} levels deep"

_NOT_UTF_8 = frozenset(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"))
_BOM = b"\xef\xbb\xbf"
# Halves of surrogate pairs, as escapes and as bytes: the strict reader refuses them, as small ones may hold.
_HALF_PAIR = re.compile(
    rb"(?<!\\)((?:\\\\)*+)(?:"
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\xed[\xa0-\xbf][\x80-\xbf]"
)
_CHUNK_BYTES = 64 << 10
_REPLACEMENT = "\ufffd".encode()


def json_object(raw: bytes, max_bytes: int, *, setting: str) -> tuple[dict[str, Any], InvalidMessage | None]:
    """The object, and why it is invalid; then it holds only what its sender is known by.

    InvalidMessage where not even that can be told. `setting` is the variable that sets `max_bytes`.
    """
    if len(raw) > max_bytes:
        return sender_of_message(raw), too_large(len(raw), max_bytes, setting=setting)
    encoding = json.detect_encoding(raw)
    if encoding in _NOT_UTF_8:  # the bytes of other encodings cannot be counted
        raw, encoding = _as_utf_8(raw, encoding), "utf-8"
    if has_more_values(raw, most := most_values(max_bytes)):
        return sender_of_message(raw), InvalidMessage(
            f"the message holds too many values: at most {most} list items and fields are read where a message may "
            f"have {max_bytes} bytes ({setting}); send less in one message"
        )
    return _small_object(raw, encoding) if len(raw) <= ON_LOOP_BYTES else _large_object(raw)


def too_large(size: int | str, max_bytes: int, *, setting: str) -> InvalidMessage:
    """The error of a message that has too many bytes."""
    return InvalidMessage(f"the message has {size} bytes; at most {max_bytes} are read ({setting})")


def is_too_deep(data: Mapping[str, Any], levels: int = _MOST_LEVELS) -> bool:
    """Whether the value is nested deeper than a message may be."""
    level: list[Any] = [data]
    for _ in range(levels):
        level = [inner for part in level for inner in _inner(part) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inner(part: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", part).values() if isinstance(part, dict) else part


def _as_utf_8(raw: bytes, encoding: str) -> bytes:
    try:
        return raw.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise InvalidMessage(f"the message is not JSON: {error}") from error


class _OddNumber(Exception):
    """A number that is not JSON, or too large."""


def _refused(_: str) -> float:
    raise _OddNumber


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):  # it could not be written again either
        raise _OddNumber
    return value


# Made once: it is what costs most of reading a short message.
_READER = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)


def _small_object(raw: bytes, encoding: str) -> tuple[dict[str, Any], InvalidMessage | None]:
    try:
        found = _checked(_READER.decode(raw.decode(encoding, "surrogatepass")))
    except _OddNumber:
        return _odd_object(raw)
    except ValueError as error:
        raise InvalidMessage(f"the message is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidMessage(TOO_DEEP) from error
    is_flat = raw.count(b"{") + raw.count(b"[") <= _MOST_LEVELS
    return found, None if is_flat or not is_too_deep(found) else InvalidMessage(TOO_DEEP)


def _odd_object(raw: bytes) -> tuple[dict[str, Any], InvalidMessage]:
    """A JSON object that has invalid numbers (NaN, too large), and the error that names them for its sender."""
    odd: list[str] = []  # invalid numbers: read on, to learn the reply address

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            odd.append(f"the number {digits[:40]} is too large")
        return value

    try:
        data = json.loads(raw, parse_constant=lambda name: odd.append(f"{name} is not JSON"), parse_float=number)
    except ValueError as error:
        raise InvalidMessage(f"the message is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidMessage(TOO_DEEP) from error
    said = "the message is not JSON"
    return _checked(data), InvalidMessage(f"{said}: {odd[0]}", without_values=f"{said}: it holds an invalid number")


def _large_object(raw: bytes) -> tuple[dict[str, Any], InvalidMessage | None]:
    try:
        found = _checked(_from_json(raw))
    except ValueError as error:
        is_deep = "recursion limit" in str(error)
        problem = InvalidMessage(TOO_DEEP if is_deep else f"the message is not JSON: {str(error)[:200]}")
        return sender_of_message(raw), problem
    if is_too_deep(found):
        return found, InvalidMessage(TOO_DEEP)
    if _has_infinite(found):
        return found, InvalidMessage("the message is not JSON: it holds a number that is too large")
    return found, None


def _from_json(raw: bytes) -> Any:
    raw = raw.removeprefix(_BOM)
    try:
        return from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        if _HALF_PAIR.search(raw) is None:
            raise
    return from_json(_without_half_pairs(raw), allow_inf_nan=False, cache_strings="keys")


def _without_half_pairs(raw: bytes) -> bytearray:
    """The bytes with a replacement for each; made in parts, for a substitution holds all its pieces at once."""
    whole, start = bytearray(), 0
    while start < len(raw):
        # No escape goes over a space.
        end = raw.find(b" ", start + _CHUNK_BYTES) + 1 or len(raw)
        whole += _HALF_PAIR.sub(rb"\1" + _REPLACEMENT, raw[start:end])
        start = end
    return whole


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidMessage("the message is JSON but not an object")
    return cast("dict[str, Any]", data)


def _has_infinite(data: dict[str, Any]) -> bool:
    """Whether a number in it is too large for a float: it could not be written again."""
    waiting: list[Any] = [data]
    while waiting:
        for inner in _inner(waiting.pop()):
            if isinstance(inner, float) and math.isinf(inner):
                return True
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return False
