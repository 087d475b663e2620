"""Limits of a message: its bytes, its values, and whether it is read on the event loop.

A value in memory is many times its bytes in JSON: four million tags of two bytes each are gigabytes once they are
built and validated. So the values are counted in the bytes, before they are parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
    """What `read` makes of a message of so many bytes: made here when it is small, else on a thread of its own.

    Large messages are read one after the other.
    """
    if size <= ON_LOOP_BYTES:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_reader, read)
