"""Formats of import files: JSON lines are read as they are; CSV and a JSON array become JSON lines first."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from orion_recall.errors import ImportFileError, InvalidMessage
from orion_recall.memory.transfer.import_file import MAX_LINE_BYTES, LineProblem, file_status, read_json
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
"""Other names of fields in CSV and JSON arrays, used where the field itself is absent. JSON lines have none."""

Unit = Literal["line", "row", "item"]

_SAMPLE_BYTES = 64 * 1024
_DELIMITERS = ",;\t|"
_LISTS = frozenset(("tags", "entities", "supersedes"))
_TIMES = frozenset(("occurred_at", "occurred_until", "mentioned_at"))
_NEEDED = ("id", "text")


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
        match _format(sample, path.suffix.lower(), mapping):
            case "array":
                return _of_array(path, mapping, folder / "lines.jsonl", name)
            case "csv":
                return _of_csv(path, mapping, folder / "lines.jsonl", name)
            case "lines":
                return ImportLines(path=path, mapping=mapping)
            case None:
                raise ImportFileError(
                    f"{name}: its format is not imported: give JSON lines (one object a line), a JSON array of "
                    "objects, or CSV with a header line"
                )
    except UnicodeDecodeError as error:
        raise ImportFileError(f"{name}: not UTF-8 ({error.reason}): save it as UTF-8") from error
    except OSError as error:
        raise ImportFileError(f"{path}: {error.strerror or type(error).__name__}") from error


def _format(sample: bytes, suffix: str, mapping: ImportMapping) -> Literal["lines", "array", "csv"] | None:
    """What the content is; the suffix decides where that is open. None: nothing that is imported."""
    lines = [line.strip() for line in sample.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    if b"\x00" in sample:
        return None
    if not lines:
        return "lines"
    if lines[0].startswith("["):
        return "array"
    if lines[0] == "{":  # an object over several lines
        return None
    if lines[0].startswith("{"):
        return "lines"
    if suffix in (".csv", ".tsv") or _is_header(lines[0], mapping):
        return "csv"
    # The others are named one by one.
    return "lines" if any(line.startswith("{") for line in lines[:10]) else None


def _of_array(path: Path, mapping: ImportMapping, out: Path, name: str) -> ImportLines:
    try:
        items = read_json(path.read_text("utf-8-sig"))
    except InvalidMessage as error:
        raise ImportFileError(f"{name}: {error}") from error
    assert isinstance(items, list)  # it begins as one
    whole = cast("list[Any]", items)
    with out.open("w", encoding="utf-8") as lines:
        lines.writelines(f"{json.dumps(item, ensure_ascii=False)}\n" for item in whole)
    names = list(cast("dict[str, Any]", whole[0])) if whole and isinstance(whole[0], dict) else []
    return ImportLines(path=out, mapping=_with_aliases(mapping, names), unit="item")


def _of_csv(path: Path, mapping: ImportMapping, out: Path, name: str) -> ImportLines:
    """One line for each row; the header's line is blank, so that rows are counted as spreadsheets do."""
    csv.field_size_limit(MAX_LINE_BYTES)
    problems: list[LineProblem] = []
    with path.open(encoding="utf-8-sig", newline="") as file, out.open("w", encoding="utf-8") as lines:
        delimiter = _delimiter(file.readline())
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = [column.strip() for column in next(rows)]
            mapping = _of_header(header, mapping, name)
            fields = {source: target for target, source in mapping.fields.items()}
            lines.write("\n")
            for number, row in enumerate(rows, 2):
                if len(row) not in (0, len(header)):
                    reason = f"the row has {len(row)} values, and the header {len(header)} columns"
                    problems.append(LineProblem(file=name, line=number, reason=reason))
                    row = []
                cells = [
                    (column, cell) for column, cell in zip(header, row, strict=False) if column and cell.strip()
                ]
                given = {column: _value(fields.get(column, column), cell) for column, cell in cells}
                lines.write(f"{json.dumps(given, ensure_ascii=False)}\n" if given else "\n")
        except csv.Error as error:
            raise ImportFileError(f"{name}:{rows.line_num}: not CSV: {error}") from error
    return ImportLines(path=out, mapping=mapping, unit="row", problems=tuple(problems))


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
    names = [name.strip().strip('"') for name in line.split(_delimiter(line))]
    found = _with_aliases(mapping, names)
    return all(found.fields.get(field, field) in names for field in _NEEDED)
