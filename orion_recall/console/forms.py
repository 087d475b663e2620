"""Reads the forms of the console: their fields as text, of at most so many bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BYTES = 1 << 20
_MOST_FIELDS = 500
_BODY_S = 30
_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form or of an address, each with all its values."""

    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def text(self, name: str, default: str = "") -> str:
        values = self.fields.get(name, ())
        return values[0].strip() if values else default

    def raw(self, name: str) -> str:
        """The first value as it was sent, with line ends as in files."""
        values = self.fields.get(name, ())
        return values[0].replace("\r\n", "\n").replace("\r", "\n") if values else ""

    def all(self, name: str) -> tuple[str, ...]:
        return self.fields.get(name, ())

    def number(self, name: str, *, least: int, most: int) -> int | None:
        text = self.text(name)
        return max(least, min(most, int(text))) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def form_of(encoded: str) -> Form:
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "the form has too many fields") from error
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return Form(found)


async def read_form(request: Request) -> Form:
    """The form that a request brings; HTTPException for another body, and for one that is too large or late."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(415, "this takes a form")
    try:
        async with asyncio.timeout(_BODY_S):
            body = await _body(request)
    except TimeoutError as error:
        raise HTTPException(408, f"the form did not come within {_BODY_S} seconds") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the form was cut off") from error
    return form_of(body.decode("utf-8", "replace"))


async def _body(request: Request) -> bytearray:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the form is larger than {MOST_BYTES} bytes")
    return body
