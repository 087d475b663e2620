"""Frames between a worker and the process of its index: pickled objects, each behind its length.

Both ends are this program on a socket pair that nobody else has, so what is unpickled is our own.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from struct import Struct
from typing import Any

_LENGTH = Struct("<Q")


class Frames(asyncio.Protocol):
    """One end of the socket: `heard` is called with each object that comes, `lost` once the other end is gone."""

    def __init__(self, heard: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._heard, self._lost = heard, lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    @property
    def is_open(self) -> bool:
        """Whether somebody is at the other end, as far as this one has heard."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        buffer = self._buffer
        buffer += data
        start, whole = 0, len(buffer)
        while whole - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(buffer, start)[0]
            if end > whole:
                break
            with memoryview(buffer) as view, view[start + _LENGTH.size : end] as body:
                told = pickle.loads(body)  # noqa: S301  # nosec B301
            start = end
            self._heard(told)
        if start:
            del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._transport = None
        self._lost()

    def send(self, told: object) -> None:
        """Sends an object; to nobody it is not sent."""
        if self._transport is not None:
            body = pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
            self._transport.writelines((_LENGTH.pack(len(body)), body))

    def close(self) -> None:
        """Closes this end once all is sent."""
        if self._transport is not None:
            self._transport.close()
