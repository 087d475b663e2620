"""Formats of import files: JSON lines are read as they are; CSV and a JSON array become JSON lines first."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer.import_file import MAX_LINE_BYTES, LineProblem, file_status
from orion_recall.memory.transfer.import_mapping import ImportMapping

ALIASES: Mapping[str, tuple[str, ...]] = {
    "id": ("memory_id", "key"),
    "text": ("content", "body", "message"),
    "speaker": ("author",),
    "session_id": ("session", "conversation_id"),
    "user_id": ("user",),
    "occurred_at": ("date", "timestamp"),
    "tags": ("labels",),
}
"""Other names of fields in CSV and JSON arrays, used where the field itself is absent.

JSON lines have none: there such a field has always been metadata."""

Unit = Literal["line", "row", "item"]

_SAMPLE_BYTES = 64 * 1024
_DELIMITERS = ",;\t|"
_LISTS = frozenset(("tags", "entities", "supersedes"))
_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at"))
_NEEDED = ("id", "text")
_TAKEN = "JSON lines (one object a line), a JSON array of objects, or CSV with a header line"
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive or an Excel workbook"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"\x1f\x8b", "gzip data"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
# Whole numbers as text: they are only passed over here, and the reader of lines judges them.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportLines:
    """An import as a file of JSON lines, in which a line's number is that of the `unit` in the original.

    `problems` are rows that could not become a line; their lines are blank.
    """

    path: Path
    mapping: ImportMapping
    unit: Unit = "line"
    problems: tuple[LineProblem, ...] = ()


def import_lines(path: Path, mapping: ImportMapping, folder: Path, *, called: str | None = None) -> ImportLines:
    """The file as JSON lines: itself, or a file made of it in the folder.

    `called` is the name of the file in messages. ImportFileError: it cannot be read, is of a format that is not
    imported, or has no column for id or text.
    """
    name = called or str(path)
    file_status(path)
    try:
        with path.open("rb") as file:
            sample = file.read(_SAMPLE_BYTES)
        match _format(sample, path.suffix.lower(), mapping, name):
            case "array":
                return _of_array(path, mapping, folder / "lines.jsonl", name)
            case "csv":
                return _of_csv(path, mapping, folder / "lines.jsonl", name)
            case _:
                return ImportLines(path=path, mapping=mapping)
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error


def _format(sample: bytes, suffix: str, mapping: ImportMapping, name: str) -> Literal["lines", "array", "csv"]:
    """What the content is; the suffix decides where that is open. ImportFileError names what is not imported."""
    binary = next((what for magic, what in _BINARY if sample.startswith(magic)), None)
    if binary or b"\x00" in sample:
        raise _not_imported(name, binary or "binary data")
    text = sample.decode("utf-8-sig", "replace").lstrip()
    if text.startswith("[") and not _is_whole(text.partition("\n")[0], followed=text.partition("\n")[2]):
        return "array"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if text.startswith("{") and _spans_lines(text):
        raise _not_imported(name, "a single JSON object over several lines")
    if not lines or lines[0].startswith(("{", "[")):
        return "lines"
    if text.startswith("<"):
        is_page = text[:200].lower().startswith(("<!doctype html", "<html"))
        raise _not_imported(name, "HTML" if is_page else "XML")
    if suffix in (".csv", ".tsv") or _is_header(lines[0], mapping):
        return "csv"
    if any(line.startswith("{") for line in lines[:10]):  # the others are named one by one
        return "lines"
    if suffix in (".yaml", ".yml") or text.startswith(("---\n", "- ")):
        raise _not_imported(name, "YAML")
    raise _not_imported(name, "plain text")


def _not_imported(name: str, what: str) -> ImportFileError:
    return ImportFileError(f"{name}: this looks like {what}, which is not imported: give {_TAKEN}")


def _is_whole(line: str, *, followed: str) -> bool:
    """Whether the line is a JSON document, and other lines follow: then the file is one of JSON lines."""
    try:
        _, end = _DECODER.raw_decode(line)
    except (ValueError, RecursionError):
        return False
    return not line[end:].strip() and bool(followed.strip())


def _spans_lines(text: str) -> bool:
    """Whether the first JSON document goes on after its first line."""
    try:
        _, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return text.partition("\n")[0].strip() == "{"
    return "\n" in text[:end]


def _of_array(path: Path, mapping: ImportMapping, out: Path, name: str) -> ImportLines:
    """One line for each item of the array, as it is written there."""
    text = _text(path, name)
    names: list[str] = []
    with out.open("w", encoding="utf-8") as lines:
        for number, (item, value) in enumerate(_items(text, name)):
            if not number and isinstance(value, dict):
                names = list(cast("dict[str, Any]", value))
            lines.write(item.replace("\r", " ").replace("\n", " ") + "\n")
    return ImportLines(path=out, mapping=_with_aliases(mapping, names), unit="item")


def _text(path: Path, name: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFileError(f"{name}: not UTF-8 at byte {error.start}: save it as UTF-8") from error


def _items(text: str, name: str) -> Iterator[tuple[str, object]]:
    """Each item with its text. A mistake ends it, with its line and column: what follows cannot be told apart."""
    place = _after_blanks(text, text.index("[") + 1)
    try:
        while not text.startswith("]", place):
            value, end = _DECODER.raw_decode(text, place)
            yield text[place:end], value
            place = _after_blanks(text, end)
            if text.startswith(",", place):
                place = _after_blanks(text, place + 1)
            elif not text.startswith("]", place):
                raise json.JSONDecodeError("Expecting ',' delimiter or ']'", text, place)
    except json.JSONDecodeError as error:
        raise ImportFileError(f"{name}:{error.lineno}: not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ImportFileError(f"{name}: the JSON is nested too deeply") from error
    if rest := text[place + 1 :].strip():
        raise ImportFileError(f"{name}: the JSON array is followed by {rest[:20]!r}")


def _after_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _of_csv(path: Path, mapping: ImportMapping, out: Path, name: str) -> ImportLines:
    """One line for each row; the header's line is blank, so that rows are counted as spreadsheets do."""
    csv.field_size_limit(MAX_LINE_BYTES)
    with path.open("rb") as file:
        delimiter = _delimiter(file.readline().decode("utf-8", "replace"))
    problems: list[LineProblem] = []
    with path.open(encoding="utf-8-sig", newline="") as file, out.open("w", encoding="utf-8") as lines:
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = [column.strip() for column in next(rows)]
            mapping = _of_header(header, mapping, name)
            lines.write("\n")
            for number, row in enumerate(rows, 2):
                if len(row) not in (0, len(header)):
                    reason = f"the row has {len(row)} values, and the header {len(header)} columns"
                    problems.append(LineProblem(file=name, line=number, reason=reason))
                    row = []
                _write_row(lines, header, row, mapping)
        except UnicodeDecodeError as error:
            raise ImportFileError(f"{name}:{_bad_line(path)}: not UTF-8: save it as UTF-8") from error
        except csv.Error as error:
            raise ImportFileError(f"{name}:{rows.line_num}: not CSV: {error}") from error
    return ImportLines(path=out, mapping=mapping, unit="row", problems=tuple(problems))


def _bad_line(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with path.open("rb") as file:
        return next(number for number, line in enumerate(file, 1) if "\ufffd" in line.decode("utf-8", "replace"))


def _of_header(header: Sequence[str], mapping: ImportMapping, name: str) -> ImportMapping:
    """The mapping with aliases; ImportFileError for a column twice, and for none that gives id or text."""
    if twice := next((column for column in header if header.count(column) > 1), None):
        raise ImportFileError(f"{name}:1: the column {twice!r} is there twice")
    found = _with_aliases(mapping, header)
    for field in _NEEDED:
        if found.fields.get(field, field) not in header:
            columns = ", ".join(header)
            raise ImportFileError(f"{name}:1: no column gives {field}: give --map {field}=COLUMN, one of {columns}")
    return found


def _write_row(lines: TextIO, header: Sequence[str], row: Sequence[str], mapping: ImportMapping) -> None:
    targets = {source: target for target, source in mapping.fields.items()}
    given = {
        column: _value(targets.get(column, column), cell)
        for column, cell in zip(header, row, strict=False)
        if cell.strip() and column
    }
    lines.write(f"{json.dumps(given, ensure_ascii=False)}\n" if given else "\n")


def _value(field: str, cell: str) -> Any:
    """The cell as JSON for its field: a list by commas or as JSON, metadata as JSON, epoch seconds as a number."""
    if field in _LISTS and not cell.lstrip().startswith("["):
        return [part.strip() for part in cell.replace(";", ",").split(",") if part.strip()]
    if field in _LISTS or field in ("metadata", "confidence") or (field in _TIMES and cell.strip().isdecimal()):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell  # the contract says what is wrong with it
    return cell.strip() if field in _TIMES or field == "id" else cell


def _with_aliases(mapping: ImportMapping, names: Sequence[str]) -> ImportMapping:
    """The mapping, and an alias for each field that neither it nor the names give."""
    taken = set(mapping.fields.values())
    found = {
        field: alias
        for field, aliases in ALIASES.items()
        if field not in mapping.fields and field not in names
        for alias in reversed(aliases)
        if alias in names and alias not in taken
    }
    return replace(mapping, fields={**mapping.fields, **found})


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _is_header(line: str, mapping: ImportMapping) -> bool:
    """Whether a line names the columns of id and text."""
    names = [name.strip().strip('"') for name in line.split(_delimiter(line))]
    found = _with_aliases(mapping, names)
    return all(found.fields.get(field, field) in names for field in _NEEDED)
