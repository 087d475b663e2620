"""Reads the forms of the console: their fields as text, of at most so many bytes.

A field that was filled and not touched does not always come back as it was: a browser changes line ends, and takes
them out of fields of one line. What it sends is compared with that (`one_line`, `with_line_ends`).
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Mapping, Sequence
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
        """The first value of a field, without blanks around it."""
        values = self.fields.get(name, ())
        return values[0].strip() if values else default

    def raw(self, name: str) -> str:
        """The first value as it was sent, with line ends as in files."""
        values = self.fields.get(name, ())
        return with_line_ends(values[0]) if values else ""

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a field."""
        return self.fields.get(name, ())

    def number(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number within the bounds; None where there is none."""
        text = self.text(name)
        return max(least, min(most, int(text))) if text.isascii() and text.isdecimal() and len(text) < 10 else None

    def number_within(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number; None where there is none, or it is out of the bounds."""
        found = self.number(name, least=least - 1, most=most + 1)
        return found if found is not None and least <= found <= most else None


def form_of(encoded: str) -> Form:
    """The fields of a query string or of a form's body."""
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "the form has too many fields") from error
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return Form(found)


def with_line_ends(text: str) -> str:
    """The text with line ends as in files."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def one_line(text: str) -> str:
    """The text as a field of one line holds it."""
    return text.replace("\r", "").replace("\n", "").strip()


def listed(texts: Sequence[str]) -> str:
    """Texts with commas between them; one that has a comma is in quotes."""
    return ", ".join('"' + one.replace('"', '""') + '"' if set(one) & set(',"') else one for one in texts)


def listed_in(sent: str, before: Sequence[str]) -> list[str]:
    """The texts of a field that was filled with `before`; those that are still there exactly as they were."""
    if one_line(sent) == one_line(listed(before)):
        return list(before)
    try:
        found = next(csv.reader([one_line(sent)], skipinitialspace=True), list[str]())
    except csv.Error as error:
        raise HTTPException(400, "this list cannot be read") from error
    known = {one_line(one): one for one in before}
    return [known.get(one.strip(), one.strip()) for one in found if one.strip()]


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
