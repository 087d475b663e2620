"""Output of commands: results on standard output, as text or JSON; notes and errors on standard error.

`printing` says which: no command asks for it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TextIO, TypeAlias, cast

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from orion_recall.errors import OrionError

# Whether the command line that runs has --json.
_JSON: ContextVar[bool] = ContextVar("json", default=False)
# Of a table that goes into a file or a pipe.
_WIDTH_WITHOUT_TERMINAL = 100
_GAP = 2
_NOTHING: tuple[object, ...] = (None, "", (), [], {})


def console(*, width: int = _WIDTH_WITHOUT_TERMINAL) -> Console:
    """Standard output, for people; `width` columns wide where that is no terminal."""
    return _Console(sys.stdout, width)


def notes() -> Console:
    return _Console(sys.stderr, _WIDTH_WITHOUT_TERMINAL)


@contextlib.contextmanager
def printing(*, json: bool) -> Generator[None]:
    """Commands print JSON in the block, or text."""
    before = _JSON.set(json)
    try:
        yield
    finally:
        _JSON.reset(before)


def wants_json() -> bool:
    return _JSON.get()


def for_people() -> bool:
    """Whether a program that goes on running writes lines for people: on a terminal, unless JSON is asked for."""
    return not wants_json() and sys.stdout.isatty()


def print_json(value: object, *, one_line: bool = False) -> None:
    """The value as one JSON document on standard output; it is there when this returns."""
    print(json.dumps(plain(value), indent=None if one_line else 2), flush=True)


def print_error(message: str, kind: str | None = None) -> None:
    """`error: …` on standard error; of a `kind`, and where JSON is asked for, `{"error": …}` on standard output."""
    if kind is not None and wants_json():
        with contextlib.suppress(OSError):  # it may be what there is to tell: a full disk
            print_json({"error": {"type": kind, "message": message}})
    print(f"error: {visible(message)}", file=sys.stderr)


def plain(value: object) -> Any:
    """The value in JSON's own types. Times are ISO 8601; what is no finite number is null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
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


def moment_of(seconds: float | None) -> datetime | None:
    """The time of so many seconds since 1970."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def duration(seconds: float) -> str:
    """About how long, in the unit that one would say: 3 s, 5 min, 2 h, 9 days."""
    for unit, size in (("days", 2 * 86_400), ("h", 2 * 3600), ("min", 120)):
        if seconds >= size:
            return f"{seconds // (size // 2):.0f} {unit}"
    return f"{seconds:.0f} s"


def group(told: str | None = None) -> typer.Typer:
    """A group of commands with that help; without any a command that stands alone."""
    return typer.Typer(help=told, add_completion=False, rich_markup_mode="markdown")


Shown: TypeAlias = "Table | Padding | Text | str"


class Remark(str):
    """A line of what is shown that goes to standard error."""

    __slots__ = ()


class NotFound(OrionError):
    """Nothing has the name or id that a command was given: exit code 1."""


def show(value: object, *shown: Shown, remarks: Iterable[str | None] = ()) -> None:
    """What a command gives: the value where JSON is asked for, else what is shown of it, and then the remarks."""
    if wants_json():
        print_json(value)
        return
    for part in (*shown, *map(Remark, filter(None, remarks))):
        if isinstance(part, str):
            prose(part, notes() if isinstance(part, Remark) else None)
        else:
            console().print(part, soft_wrap=isinstance(part, Text))


def listed(
    value: object, columns: Iterable[str], rows: Sequence[Sequence[object]], *, nothing: str | None = None,
    remarks: Iterable[str | None] = (),
) -> None:  # fmt: skip
    """As `show`, a table of the rows; without any the remark `nothing`."""
    show(value, *([Table(columns, rows)] if rows else []), remarks=(None if rows else nothing, *remarks))


def report(value: Mapping[str, Any]) -> None:
    """As `show`, the document itself."""
    show(value, *document(value))


def document(value: Mapping[str, Any]) -> Iterator[Shown]:
    """A document's values in lines, then a table for each list of objects."""
    given = {name: one for name, one in value.items() if one not in _NOTHING}
    tables = {name: objects for name, one in given.items() if (objects := _objects(one))}
    if single := [(name.replace("_", " "), _cell(one)) for name, one in given.items() if name not in tables]:
        yield pairs(single)
    for name, objects in tables.items():
        columns = dict.fromkeys(key for one in objects for key in one)
        kept = [key for key in columns if any(one.get(key) not in _NOTHING for one in objects)]
        rows = [[_cell(one.get(key)) for key in kept] for one in objects]
        yield Table([key.replace("_", " ") for key in kept], rows, title=f"\n{name.replace('_', ' ')}")


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        value = [{"": name, **one} if isinstance(one, Mapping) else one for name, one in named.items()]
    found = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
    return found if all(isinstance(one, Mapping) for one in found) else ()


def _cell(value: Any) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {visible(one)}" for name, one in cast("Mapping[str, Any]", value).items())
    return ", ".join(map(visible, cast("list[Any]", value))) if isinstance(value, list | tuple) else value


def limited(limit: int, what: str) -> str:
    """The remark that more was found than is shown."""
    return f"limited to {counted(limit, what)}: --limit shows more"


def prose(text: str, out: Console | None = None) -> None:
    """Text on standard output: on a terminal it wraps between words, in a file or a pipe every line stays one."""
    out = out or console()
    out.print(Text(visible(text)), soft_wrap=not (out.is_terminal or "COLUMNS" in os.environ))


def note(text: str) -> None:
    """A remark on standard error, set as `prose` is."""
    prose(text, notes())


@contextlib.contextmanager
def bars(*columns: ProgressColumn) -> Generator[Progress]:
    """Bars on standard error, where that is a terminal; by default of what has a known end."""
    shown = notes()
    columns = columns or (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(
        *columns, console=shown, transient=True, disable=not shown.is_terminal, redirect_stdout=False
    ) as made:
        yield made


@contextlib.contextmanager
def progress(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar; the function takes how much is done, and of how much."""
    with bars() as shown:
        bar = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)


class RunBars:
    """Progress as bars, one for each part of it."""

    def __init__(self, shown: Progress) -> None:
        self._bars = shown
        self._task: TaskID | None = None

    def begins(self, what: str, total: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, visible=False)
        self._task = self._bars.add_task(what, total=total)

    def advanced(self, done: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, completed=done)


@contextlib.contextmanager
def progress_bars() -> Generator[RunBars]:
    """Bars of what has several parts."""
    with bars() as shown:
        yield RunBars(shown)


def heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def pairs(rows: Iterable[tuple[str, object]], *, indent: int = 0) -> Padding:
    """Names and values, a line each."""
    return Padding(_grid(["", ""], [[visible(name), value] for name, value in rows]), (0, 0, 0, indent))


class Table:
    """A table that fits its console: prose wraps between words, any other value and every word stays whole.

    Numbers are aligned to the right. Where that leaves too little room each row is shown as a list of its fields.
    """

    def __init__(
        self, columns: Iterable[str], rows: Iterable[Sequence[object]], *, title: str | None = None
    ) -> None:
        self._heads, self._rows, self._title = [*map(visible, columns)], [list(row) for row in rows], title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._title is not None:
            yield Text(visible(self._title), style="bold")
        side_by_side = _grid(self._heads, self._rows)
        least = sum((column.min_width or 0) + _GAP for column in side_by_side.columns) - _GAP
        if least <= options.max_width:
            yield side_by_side
            return
        for number, row in enumerate(self._rows):
            if number:
                yield Text()
            yield _grid(["", ""], [[head, value] for head, value in zip(self._heads, row, strict=True)])


def _grid(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> RichTable:
    made = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=any(heads))
    for place, head in enumerate(heads):
        column = [row[place] for row in rows]
        is_number = bool(column) and all(one is None or isinstance(one, int | float | Decimal) for one in column)
        least = max((cell_len(part) for one in (head, *column) for part in _whole(one)), default=1)
        lines = [line for one in (head, *column) for line in visible(one).split("\n")]
        side, is_whole = "right" if is_number else "left", max(map(cell_len, lines)) <= least
        made.add_column(Text(head), justify=side, min_width=least, no_wrap=is_whole, overflow="fold")
    for row in rows:
        made.add_row(*(Text(visible(one)) for one in row))
    return made


def _whole(value: object) -> list[str]:
    shown = visible(value)
    return shown.split() if isinstance(value, str) else shown.split("\n")


class _Console(Console):
    """A console that cuts nothing off: a line that is too wide is wrapped by the terminal."""

    def __init__(self, stream: TextIO, width: int) -> None:
        is_known = stream.isatty() or "COLUMNS" in os.environ
        super().__init__(stderr=stream is sys.stderr, width=None if is_known else width, highlight=False)

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        """As rich's; into a file or a pipe a table goes without blanks at the ends of its lines."""
        if self.is_terminal or all(isinstance(one, str | Text) for one in objects):
            super().print(*objects, crop=crop, **options)
            return
        with self.capture() as held:
            super().print(*objects, crop=crop, **options)
        self.file.write("\n".join(line.rstrip() for line in held.get().split("\n")))
