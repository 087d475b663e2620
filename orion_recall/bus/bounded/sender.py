"""The sender of a message that is not read: correlation id and reply address, from its first and last bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

HEAD_BYTES = 16 << 10
TAIL_BYTES = 2 << 10

_DECODER = json.JSONDecoder()
_TEXT = r'"(?:[^"\\]|\\.)*+"'
_KEY = re.compile(rf"\s*[{{,]\s*({_TEXT})\s*:\s*", re.DOTALL)
# Members before the last bracket, none of which holds a bracket itself: they are the outermost object's.
_LAST_MEMBERS = re.compile(rf"(?:,\s*{_TEXT}\s*:\s*(?:{_TEXT}|[-+.\w]+)\s*)++\}}\s*\Z", re.DOTALL)
_CUT: Any = object()
_OPTIONS, _OBJECT, _BACKSLASH = b'"options"', re.compile(rb"\s*:\s*\{"), ord("\\")


def sender_of_message(raw: bytes) -> dict[str, Any]:
    """As `sender_of`, of a message that is there whole but not parsed.

    A payload with `options` after what makes it too large has them, too, as an empty object: their sender reads an
    `error`, and would take an empty bundle without one for "nothing found".
    """
    return _with_options(sender_of(raw[:HEAD_BYTES], raw[-TAIL_BYTES:]), raw)


def _with_options(found: dict[str, Any], raw: bytes) -> dict[str, Any]:
    payload: Any = found.get("payload", {})
    if isinstance(payload, dict) and "options" not in payload and _names_options(raw):
        found["payload"] = cast("dict[str, Any]", payload) | {"options": {}}
    return found


def _names_options(raw: bytes) -> bool:
    """Whether a member `options` is an object somewhere in the JSON. Within a string its quotes are escaped."""
    at = raw.find(_OPTIONS)
    while at != -1:
        if raw[at - 1] != _BACKSLASH and _OBJECT.match(raw, at + len(_OPTIONS)):
            return True
        at = raw.find(_OPTIONS, at + 1)
    return False


def sender_of(head: bytes, tail: bytes = b"") -> dict[str, Any]:
    """The envelope's members that stand whole in the message's first or last bytes.

    A payload that is cut has those of its members that stand whole in the first bytes; its `options`, when they are
    cut, are an empty object. Where only these bytes are left, options that stand last are found in the last ones.
    """
    text = head[:HEAD_BYTES].decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for name, value, at in _members(text, 0):
        if value is not _CUT:
            found[name] = value
        elif name == "payload":
            within = {name: value for name, value, _ in _members(text, at)}
            found[name] = {
                name: {} if value is _CUT else value
                for name, value in within.items()
                if value is not _CUT or name == "options"
            }
    found = _with_options(found, tail)
    last = _LAST_MEMBERS.search(tail[-TAIL_BYTES:].decode("utf-8", "replace"))
    at_end = {name: value for name, value, _ in _members(last[0], 0) if value is not _CUT} if last else {}
    return at_end | found


def _members(text: str, start: int) -> Iterator[tuple[str, Any, int]]:
    """Name, value and its place, of each member from there on; a last value that ends too soon is `_CUT`."""
    at = start
    while (key := _KEY.match(text, at)) is not None:
        at = key.end()
        try:
            name = str(_DECODER.decode(key[1]))
        except ValueError:  # a control character
            return
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield name, _CUT, at
            return
        yield name, value, at
