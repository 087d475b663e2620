"""What commands print: results on standard output, for people or as JSON; notes and errors on standard error."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# A table that goes into a file or a pipe is not squeezed into 80 columns.
_WIDTH_WITHOUT_TERMINAL = 180


def console() -> Console:
    """Standard output, for people."""
    return _console(stderr=False)


def notes() -> Console:
    """Standard error: progress and remarks."""
    return _console(stderr=True)


def for_people(*, as_json: bool) -> bool:
    """Whether a program that goes on running writes lines for people: on a terminal, unless JSON is asked for."""
    return not as_json and sys.stdout.isatty()


def print_json(value: object, *, one_line: bool = False) -> None:
    """The value as one JSON document on standard output; it is there when this returns."""
    print(json.dumps(plain(value), indent=None if one_line else 2), flush=True)


def print_error(kind: str, message: str, *, as_json: bool) -> None:
    """`error: …` on standard error; with `as_json` also `{"error": …}` on standard output."""
    if as_json:
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


def table(columns: Iterable[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A plain table; numbers stand to the right."""
    made = Table(
        title=title, title_justify="left", box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0)
    )
    kept = [list(row) for row in rows]
    for place, column in enumerate(columns):
        numbers = all(isinstance(row[place], int | float | Decimal) or row[place] is None for row in kept)
        made.add_column(Text(column), justify="right" if numbers and kept else "left", overflow="fold")
    for row in kept:
        made.add_row(*(Text(visible(value)) for value in row))
    return made


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)
