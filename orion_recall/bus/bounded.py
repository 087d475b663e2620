"""Bounded reading: limits of a message, its JSON object, and the sender of one that is not read.

A value in memory is many times its bytes in JSON, so values are counted in the bytes before they are parsed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from orion_recall.errors import InvalidMessage

T = TypeVar("T")

# Reading this much takes about a millisecond.
ON_LOOP_BYTES = 16 << 10
# A value, with its key, its share of lists and objects, and the copies of validation, takes about 300 bytes.
_BYTES_A_VALUE = 160
_FEWEST_VALUES = 1000

_CHUNK_BYTES = 64 << 10
_ALL_BUT_STRUCTURE = bytes(set(range(256)) - set(b'",[{'))
_BACKSLASH = ord("\\")

# One thread: the memory of large messages does not add up, and recalls keep the other cores.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="orion-large-message")


def most_values(max_bytes: int) -> int:
    """The number of values that a message may hold where it may have so many bytes."""
    return max(_FEWEST_VALUES, max_bytes // _BYTES_A_VALUE)


def has_more_values(raw: bytes, most: int) -> bool:
    """Whether the JSON holds more values than `most`; it is not parsed, and may be no JSON at all.

    Counted are the commas and opening brackets outside of strings: each value but the outermost has one before it.
    """
    if len(raw) <= 2 * most or raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= most:
        return False
    values = quotes = start = 0
    while start < len(raw):
        end = min(len(raw), start + _CHUNK_BYTES)
        while end < len(raw) and raw[end - 1] == _BACKSLASH:  # an escape is not cut in two
            end += 1
        chunk, start = raw[start:end], end
        if b"\\" in chunk:
            chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = chunk.translate(None, _ALL_BUT_STRUCTURE).split(b'"')
        # Every other part is within a string; whether the first is, the quotes before it say.
        values += sum(map(len, parts[quotes % 2 :: 2]))
        quotes += len(parts) - 1
        # A value has two strings at most, itself and its key.
        if values > most or quotes > 4 * (most + 1):
            return True
    return False


async def read_apart(size: int, read: Callable[[], T]) -> T:
    """What `read` makes of a message of so many bytes: made here when it is small, else on a thread of its own."""
    if size <= ON_LOOP_BYTES:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_reader, read)


HEAD_BYTES = 16 << 10
TAIL_BYTES = 2 << 10

_MEMBER = re.compile(rb'"(correlation_id|corr_id|id|reply_to)"\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL)
# Within a text quotes are escaped, so neither is found there.
_CHAIN = re.compile(rb'"causality_chain"\s*:\s*\[[^\]]*\]')
_OPTIONS = re.compile(rb'"options"\s*:\s*(?!\s|null|"")')


def sender_of(head: bytes, tail: bytes) -> dict[str, Any]:
    """Whom to answer, by the members that stand whole in the message's first bytes, else in its last ones.

    Who sends `options` reads an `error`, and would take an empty bundle without one for "nothing found".
    """
    first, last = (_MEMBER.findall(_CHAIN.sub(b"", part)) for part in (head[:HEAD_BYTES], tail[-TAIL_BYTES:]))
    found: dict[str, Any] = {}
    for name, text in (*last, *reversed(first)):
        with contextlib.suppress(ValueError):  # a control character
            found[name.decode()] = json.loads(text.decode("utf-8", "replace"))
    return found | {"payload": {"options": {}} if _OPTIONS.search(head) or _OPTIONS.search(tail) else {}}


# Deeper than any valid message, and far from where walking or writing it would exhaust the stack.
_MOST_LEVELS = 100
TOO_DEEP = f"the message is nested more than {_MOST_LEVELS} levels deep"


def json_object(raw: bytes, max_bytes: int, *, setting: str) -> tuple[dict[str, Any], InvalidMessage | None]:
    """The object, and why it is invalid; then it holds only what its sender is known by.

    InvalidMessage where not even that can be told. `setting` is the variable that sets `max_bytes`.
    """
    if len(raw) > max_bytes:
        return sender_of(raw, raw), too_large(len(raw), max_bytes, setting=setting)
    if has_more_values(raw, most := most_values(max_bytes)):
        return sender_of(raw, raw), InvalidMessage(
            f"the message holds too many values: at most {most} list items and fields are read where a message may "
            f"have {max_bytes} bytes ({setting}); send less in one message"
        )
    try:
        found: Any = _READER.decode(raw.decode("utf-8-sig", "surrogatepass"))
    except _OddNumber as odd:
        told = "the message is not JSON"
        return sender_of(raw, raw), InvalidMessage(f"{told}: {odd}", without_values=f"{told}: an invalid number")
    except ValueError as error:
        raise InvalidMessage(f"the message is not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise InvalidMessage(TOO_DEEP) from error
    if not isinstance(found, dict):
        raise InvalidMessage("the message is JSON but not an object")
    data = cast("dict[str, Any]", found)
    is_flat = raw.count(b"{") + raw.count(b"[") <= _MOST_LEVELS
    return data, None if is_flat or not is_too_deep(data) else InvalidMessage(TOO_DEEP)


def too_large(size: int | str, max_bytes: int, *, setting: str) -> InvalidMessage:
    return InvalidMessage(f"the message has {size} bytes; at most {max_bytes} are read ({setting})")


def is_too_deep(data: Mapping[str, Any], levels: int = _MOST_LEVELS) -> bool:
    level: list[Any] = [data]
    for _ in range(levels):
        level = [inner for part in level for inner in _inner(part) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inner(part: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", part).values() if isinstance(part, dict) else part


class _OddNumber(Exception):
    """A number that is not JSON, or too large."""


def _refused(name: str) -> float:
    raise _OddNumber(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):  # it could not be written again either
        raise _OddNumber(f"the number {digits[:40]} is too large")
    return value


# Made once: it is what costs most of reading a short message.
_READER = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)
