"""Output of commands: results on standard output, as text or JSON; notes and errors on standard error."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, cast

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# Of a table that goes into a file or a pipe.
_WIDTH_WITHOUT_TERMINAL = 100
_GAP = 2
# A column of prose is not squeezed below this: then each row is a list of its fields.
_READABLE = 20
_BULLET = re.compile(r" *(?:[-*•] |\d+\. )?")


def console(*, width: int = _WIDTH_WITHOUT_TERMINAL) -> Console:
    """Standard output, for people; `width` columns wide where that is no terminal."""
    return _console(stderr=False, width=width)


def notes() -> Console:
    """Standard error: progress and remarks."""
    return _console(stderr=True, width=_WIDTH_WITHOUT_TERMINAL)


def for_people(*, as_json: bool) -> bool:
    """Whether a program that goes on running writes lines for people: on a terminal, unless JSON is asked for."""
    return not as_json and sys.stdout.isatty()


def print_json(value: object, *, one_line: bool = False) -> None:
    """The value as one JSON document on standard output; it is there when this returns."""
    print(json.dumps(plain(value), indent=None if one_line else 2), flush=True)


def print_error(kind: str, message: str, *, as_json: bool) -> None:
    """`error: …` on standard error; with `as_json` also `{"error": …}` on standard output."""
    if as_json:
        with contextlib.suppress(OSError):  # it may be what there is to tell: a full disk
            print_json({"error": {"type": kind, "message": message}})
    print(f"error: {visible(message)}", file=sys.stderr)


def plain(value: object) -> Any:
    """The value in JSON's own types. Times are ISO 8601; what is no finite number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return plain(int(value) if value.is_finite() and value == value.to_integral() else float(value))
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [plain(item) for item in cast("Iterable[object]", value)]
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def visible(value: object) -> str:
    """A value as text that cannot steer a terminal; line breaks stay."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    shaped = plain(value)
    text = shaped if isinstance(shaped, str) else json.dumps(shaped, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 memory, 2 memories, 1,200 lines."""
    plural = many or (f"{one[:-1]}ies" if one.endswith("y") and one[-2] not in "aeiou" else f"{one}s")
    return f"{count:,} {one if count == 1 else plural}"


def duration(seconds: float) -> str:
    """About how long, in the unit that one would say: 3 s, 5 min, 2 h, 9 days."""
    for unit, size in (("days", 2 * 86_400), ("h", 2 * 3600), ("min", 120)):
        if seconds >= size:
            return f"{seconds // (size // 2):.0f} {unit}"
    return f"{seconds:.0f} s"


def say(what: str, value: str, error: str | None = None) -> None:
    """One line of a report, with what is wrong in red."""
    line = Text(f"{what:12} {visible(value)}")
    if error:
        line.append(f"  {visible(error)}", style="red")
    console().print(line, soft_wrap=True)


def prose(text: str, *, to: Console | None = None) -> None:
    """Text on standard output, or `to` another console: on a terminal it wraps between words, bullets hang.

    In a file or a pipe every line stays one line.
    """
    out = to or console()
    is_read = out.is_terminal or "COLUMNS" in os.environ
    out.print(Text("\n".join(wrapped(text, out.width)) if is_read else text), soft_wrap=True)


def note(text: str) -> None:
    """A remark on standard error, set as `prose` is."""
    prose(visible(text), to=notes())


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, wrapped between words: a longer word stays whole. Further lines of a bullet hang."""
    lines: list[str] = []
    for line in text.split("\n"):
        begin = _BULLET.match(line)
        indent = begin[0] if begin else ""
        hanging, current = " " * cell_len(indent), indent
        for number, word in enumerate(line[len(indent) :].split(" ")):
            longer = f"{current} {word}" if number else f"{current}{word}"
            if cell_len(longer) > width and current.strip():
                lines.append(current.rstrip())
                current = f"{hanging}{word}"
            else:
                current = longer
        lines.append(current.rstrip())
    return lines


def table(columns: Iterable[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table that fits its console; numbers are aligned to the right."""
    values = [list(row) for row in rows]
    made = [
        _Column(
            head=visible(head),
            cells=[_Cell.of(row[place]) for row in values],
            is_right=bool(values)
            and all(isinstance(row[place], int | float | Decimal) or row[place] is None for row in values),
        )
        for place, head in enumerate(columns)
    ]
    return Table(made, title=None if title is None else visible(title))


def pairs(rows: Iterable[tuple[str, object]], *, indent: int = 0) -> Table:
    """Names and values, a line each."""
    kept = [(visible(name), _Cell.of(value)) for name, value in rows]
    columns = [_Column(head=name, cells=[value], is_right=False) for name, value in kept]
    return Table(columns, indent=indent, as_fields=True)


@dataclass(frozen=True, slots=True)
class _Cell:
    """The text of one value; `breaks`: it is prose, which may wrap between words."""

    text: str
    breaks: bool = False
    is_head: bool = False

    @classmethod
    def of(cls, value: object) -> _Cell:
        return cls(visible(value), isinstance(value, str))

    def lines(self, width: int) -> list[str]:
        """The lines in a column of that width; what must stay whole may be longer."""
        return wrapped(self.text, width) if self.breaks else self.text.split("\n")

    @property
    def longest(self) -> int:
        """The width without any wrapping."""
        return max(map(cell_len, self.text.split("\n")))

    @property
    def least(self) -> int:
        """The width that breaks nothing."""
        return max(map(cell_len, self.text.split())) if self.breaks and self.text.strip() else self.longest

    @property
    def readable(self) -> int:
        """The width that breaks nothing and does not squeeze prose to its longest word."""
        return max(self.least, min(self.longest, _READABLE if self.breaks and not self.is_head else 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    head: str
    cells: Sequence[_Cell]
    is_right: bool

    @property
    def all_cells(self) -> list[_Cell]:
        """The cells with the head, which is prose."""
        return [_Cell(self.head, breaks=True, is_head=True), *self.cells]


class Table:
    """A rich table: prose wraps between words, any other value and every word stays whole.

    Where that leaves too little room each row is shown as a list of its fields.
    """

    def __init__(
        self, columns: Sequence[_Column], *, title: str | None = None, indent: int = 0, as_fields: bool = False
    ) -> None:
        self._columns, self._title, self._indent, self._as_fields = columns, title, " " * indent, as_fields

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - len(self._indent)
        if self._title is not None:
            yield from (Text(line, style="bold") for line in wrapped(self._title, width))
        widths = None if self._as_fields else _widths(self._columns, width)
        for line in self._fields(width) if widths is None else self._rows(widths):
            line.no_wrap, line.overflow = True, "ignore"
            yield line

    def _rows(self, widths: Sequence[int]) -> Iterable[Text]:
        if any(column.head for column in self._columns):
            yield from self._row([_Cell(column.head, breaks=True) for column in self._columns], widths, "bold")
        for row in zip(*(column.cells for column in self._columns), strict=True):
            yield from self._row(row, widths, "")

    def _row(self, cells: Sequence[_Cell], widths: Sequence[int], style: str) -> Iterable[Text]:
        parts = [cell.lines(width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(map(len, parts), default=0)):
            line = [
                _padded(part[number] if number < len(part) else "", width, is_right=column.is_right)
                for part, width, column in zip(parts, widths, self._columns, strict=True)
            ]
            yield Text(self._indent + (" " * _GAP).join(line).rstrip(), style=style)

    def _fields(self, width: int) -> Iterable[Text]:
        names = [column.head for column in self._columns]
        first = max(map(cell_len, names), default=0)
        for number, row in enumerate(zip(*(column.cells for column in self._columns), strict=True)):
            if number:
                yield Text()
            for name, cell in zip(names, row, strict=True):
                for place, part in enumerate(cell.lines(max(width - first - _GAP, _READABLE))):
                    line = Text(self._indent)
                    line.append(_padded("" if place else name, first), style="dim")
                    line.append(" " * _GAP + part)
                    line.rstrip()
                    yield line


def _widths(columns: Sequence[_Column], width: int) -> list[int] | None:
    """The width of each column, None where they do not fit: what prose needs beyond its words is shared fairly."""
    longest = [max(cell.longest for cell in column.all_cells) for column in columns]
    least = [max(cell.readable for cell in column.all_cells) for column in columns]
    room = width - _GAP * (len(columns) - 1) - sum(least)
    if room < 0:
        return None
    widths = list(least)
    while hungry := [place for place, most in enumerate(longest) if widths[place] < most]:
        if room < len(hungry):
            break
        share = room // len(hungry)
        for place in hungry:
            more = min(share, longest[place] - widths[place])
            widths[place] += more
            room -= more
    return widths


def _padded(text: str, width: int, *, is_right: bool = False) -> str:
    blanks = " " * max(0, width - cell_len(text))
    return blanks + text if is_right else text + blanks


class _Console(Console):
    """A console that cuts nothing off: a line that is too wide is wrapped by the terminal."""

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        """As rich's."""
        super().print(*objects, crop=crop, **options)


def _console(*, stderr: bool, width: int) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    given = stream.isatty() or "COLUMNS" in os.environ
    return _Console(stderr=stderr, width=None if given else width, highlight=False, soft_wrap=False)
