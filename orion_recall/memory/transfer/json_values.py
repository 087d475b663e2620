"""JSON of files: one text, or the values of a large file one after another in bounded memory."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from orion_recall.errors import InvalidMessage

# The longest conversation of an export is one value. Values in memory take many times their characters.
MAX_VALUE_CHARS, _MOST_SIGNS = 32 << 20, 2_000_000
_CHUNK_BYTES = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")
# Where a text is cut, its end is what cannot be read: at most half a surrogate pair or the word -Infinity.
_LONGEST_CUT = 16


def read_json(text: str) -> object:
    """What the text says; InvalidMessage where JSON says nothing, or something would be lost of it."""
    try:
        value, end = _decoded(text, 0)
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        raise _not_json(error.msg, error.lineno, error.colno) from error
    return value


def json_values(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """The items of a JSON array, else the values that follow each other, numbered from 1; one is held at a time.

    InvalidMessage, with line and column: it is no JSON, or a value is too large. UnicodeDecodeError: no UTF-8.
    """
    text = _Text(file)
    number = 0
    if is_array := text.sign() == "[":
        text.at += 1
    while sign := text.sign():
        if is_array and sign == "]":
            text.at += 1
            break
        if is_array and number:
            text.expect(",")
        number += 1
        yield number, text.value()
    else:
        if is_array:
            text.expect("]")
    if text.sign():
        text.fail("Extra data")


class _Text:
    """A file's text: what is read and not yet used, and where it stands in the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._line, self._column = "", 1, 0
        self._is_whole = False
        self.at = 0

    def sign(self) -> str:
        """The next sign that is no blank; "" at the end."""
        while True:
            match = _BLANKS.match(self._text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self._text) or self._is_whole:
                return self._text[self.at : self.at + 1]
            self._read_on()

    def expect(self, sign: str) -> None:
        if self.sign() != sign:
            self.fail(f"Expecting {sign!r} delimiter")
        self.at += 1

    def fail(self, what: str) -> NoReturn:
        raise self._invalid(json.JSONDecodeError(what, self._text, self.at))

    def value(self) -> object:
        """The next value. It is tried again with as much text again until it is there whole."""
        self.sign()
        while True:
            try:
                value, end = _decoded(self._text, self.at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _LONGEST_CUT
                if self._is_whole or not is_cut:
                    raise self._invalid(error) from error
            except InvalidMessage as error:
                raise self._about_value(str(error)) from error
            else:
                if end < len(self._text) - 2 or self._is_whole:  # else a number may go on: 1e+
                    self.at = end
                    return value
            self._read_on()

    def _read_on(self) -> None:
        used, rest = self._text[: self.at], self._text[self.at :]
        if len(rest) >= MAX_VALUE_CHARS or sum(map(rest.count, ",[{")) > _MOST_SIGNS:
            most = f"at most {MAX_VALUE_CHARS:,} characters, {_MOST_SIGNS:,} of them commas and brackets, are read"
            raise self._about_value(f"one value is too large: {most}")
        self._column = self._column + len(used) if "\n" not in used else len(used) - used.rfind("\n") - 1
        self._line += used.count("\n")
        data = self._file.read(max(_CHUNK_BYTES, len(rest)))
        self._is_whole = not data
        self._text, self.at = rest + self._decoder.decode(data, final=self._is_whole), 0

    def _about_value(self, what: str) -> InvalidMessage:
        return InvalidMessage(
            f"{what} (the value that begins at line {self._line + self._text.count(chr(10), 0, self.at)})"
        )

    def _invalid(self, error: json.JSONDecodeError) -> InvalidMessage:
        line = self._line + error.lineno - 1
        return _not_json(error.msg, line, error.colno + (self._column if error.lineno == 1 else 0))


def _decoded(text: str, start: int) -> tuple[object, int]:
    """The value that begins there, and where it ends. JSONDecodeError; InvalidMessage for what JSON lets pass."""
    try:
        return _READER.raw_decode(text, start)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a number of more digits than Python reads
        raise InvalidMessage(f"a number is too long: {error}") from error
    except RecursionError as error:
        raise InvalidMessage("the JSON is nested too deeply") from error


def _not_json(what: str, line: int, column: int) -> InvalidMessage:
    return InvalidMessage(f"not JSON: {what} at {f'line {line}, ' if line > 1 else ''}column {column}")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise InvalidMessage(f"the number {digits[:40]} is too large")
    return number


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; of a name that comes twice one value would be lost."""
    if len(found := dict(pairs)) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidMessage(f"the field {twice[:60]!r} is given twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"{name} is no JSON number")


_READER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_each_once)
