"""CSV and JSON arrays become JSON lines; what is of another format is named once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer.import_file import LineProblem, read_batches
from orion_recall.memory.transfer.import_formats import ImportLines, import_lines
from orion_recall.memory.transfer.import_mapping import ImportMapping, read_mapping

PLAIN = ImportMapping()


def lines(tmp_path: Path, content: str | bytes, name: str = "m.csv", mapping: ImportMapping = PLAIN) -> ImportLines:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return import_lines(file, mapping, tmp_path, called=name)


def read(made: ImportLines) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """The memories, and the problems of what could not be one."""
    memories: list[dict[str, Any]] = []
    problems = list(made.problems)
    for batch in read_batches(made.path, made.mapping):
        memories += batch.memories
        problems += batch.problems
    return memories, [(one.line, one.reason) for one in problems]


def test_a_csv_file_has_the_fields_of_memory_lines_and_rows_as_a_spreadsheet_counts_them(tmp_path: Path) -> None:
    made = lines(
        tmp_path,
        "\ufeffid,text,tags,confidence,mood,occurred_at,metadata\r\n"
        'a,"The crane, ""big"",\nis repaired.","harbour; quay",0.5,calm,2026-03-01T10:00:00Z,"{""n"": 1}"\r\n'
        "\r\n"
        "b,fine,,,,1772366400,\r\n"
        ",no id,,,,,\r\n"
        "c,short\r\n",
    )
    assert made.unit == "row"
    memories, problems = read(made)
    assert memories == [
        {
            "id": "a", "text": 'The crane, "big",\nis repaired.', "tags": ["harbour", "quay"], "confidence": "0.5",
            "occurred_at": "2026-03-01T10:00:00Z", "metadata": {"n": 1, "mood": "calm"},
        },
        {"id": "b", "text": "fine", "occurred_at": 1772366400},
    ]  # fmt: skip
    assert [line for line, _ in problems] == [6, 5]
    assert problems[0][1] == "the row has 2 values, and the header 7 columns"
    assert made.problems == (LineProblem(file="m.csv", line=6, reason=problems[0][1]),)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_are_separated_by_any_usual_sign_and_known_by_their_header(tmp_path: Path, delimiter: str) -> None:
    rows = (("key", "body", "author"), ("1", "fine", "Ana"))
    made = lines(tmp_path, "".join(f"{delimiter.join(row)}\n" for row in rows), name="m.txt")
    assert read(made) == ([{"id": "1", "text": "fine", "speaker": "Ana"}], [])


def test_an_alias_is_used_where_the_field_itself_is_absent(tmp_path: Path) -> None:
    made = lines(tmp_path, "id,key,text,body\na,k,fine,b\n")
    assert read(made)[0] == [{"id": "a", "text": "fine", "metadata": {"key": "k", "body": "b"}}]
    mapped = lines(
        tmp_path, "nr,said,date\n7,fine,2026-03-01\n", mapping=read_mapping("id=nr,text=said", timezone="UTC")
    )
    assert read(mapped)[0] == [{"id": "7", "text": "fine", "occurred_at": "2026-03-01T00:00:00+00:00"}]


def test_a_json_array_is_read_item_by_item(tmp_path: Path) -> None:
    made = lines(
        tmp_path,
        ' [\n {"memory_id": "a",\n  "content": "one, two"},\n 7,\n {"memory_id": "b", "content": "x", "n": 1e999}, '
        '{"memory_id": "c", "content": "fine", "mood": "calm"}\n]\n',
        name="m.json",
    )
    assert made.unit == "item"
    memories, problems = read(made)
    assert memories == [{"id": "a", "text": "one, two"}, {"id": "c", "text": "fine", "metadata": {"mood": "calm"}}]
    assert problems == [(2, "expected one JSON object a line"), (3, "the number 1e999 is too large")]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\u00a0"])
def test_a_line_separator_in_a_text_of_an_array_stays(sign: str, tmp_path: Path) -> None:
    item = f'{{"id": "a",\r\n "text": "one{sign}two", "metadata": {{"k{sign}y": "v{sign}v"}}}}'
    memories, problems = read(lines(tmp_path, f"[\n{item}\n]", name="m.json"))
    assert memories == [{"id": "a", "text": f"one{sign}two", "metadata": {f"k{sign}y": f"v{sign}v"}}]
    assert not problems


def test_a_cell_that_nests_too_deep_is_refused_alone(tmp_path: Path) -> None:
    memories, problems = read(lines(tmp_path, f"id,text,metadata\na,fine,{'[' * 20_000}\nb,fine,\n"))
    assert memories == [{"id": "b", "text": "fine"}]
    assert [line for line, _ in problems] == [2]


@pytest.mark.parametrize("content", ["[]", " [ ] "])
def test_an_empty_array_holds_nothing(tmp_path: Path, content: str) -> None:
    assert read(lines(tmp_path, content, name="m.json")) == ([], [])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.csv", '{"id": "a", "text": "fine"}\n'),
        ("m.json", '[1]\n{"id": "a", "text": "fine"}\n'),
        ("m.txt", 'not json\n{"id": "a", "text": "fine"}\n'),
        ("m", '\n\n{"id": "a", "text": "fine", "body": "of its own"}\n'),
        ("m.jsonl", ""),
    ],
)
def test_json_lines_stay_as_they_are_without_aliases(tmp_path: Path, name: str, content: str) -> None:
    made = lines(tmp_path, content, name=name)
    assert (made.path, made.mapping, made.unit) == (tmp_path / name, PLAIN, "line")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<?xml version='1.0'?>\n<memories/>\n", "XML"),
        (b"<!DOCTYPE html>\n<html>", "HTML"),
        (b"PK\x03\x04...", "a ZIP archive or an Excel workbook"),
        (b"%PDF-1.7", "a PDF"),
        (b"\x1f\x8b\x08", "gzip data"),
        ("id,text\na,b\n".encode("utf-16"), "UTF-16 text"),
        (b"\x00\x01\x02", "binary data"),
        (b"---\nid: a\ntext: fine\n", "YAML"),
        (b"Dear diary,\ntoday nothing happened.\n", "plain text"),
        (b'{\n  "id": "a",\n  "text": "x"\n}\n', "a single JSON object over several lines"),
    ],
)
def test_another_format_is_named_once_and_those_that_are_taken(tmp_path: Path, content: bytes, what: str) -> None:
    with pytest.raises(ImportFileError) as refused:
        lines(tmp_path, content, name="m.jsonl")
    assert str(refused.value).startswith(f"m.jsonl: this looks like {what}, which is not imported: give JSON lines")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("m.csv", b"a,b\n1,2\n", "m.csv:1: no column gives id: give --map id=COLUMN, one of a, b"),
        ("m.csv", b"id,text,id\n1,2,3\n", "m.csv:1: the column 'id' is there twice"),
        ("m.csv", b'id,text\na,"b\n', "m.csv:2: not CSV: unexpected end of data"),
        ("m.csv", b"id,text\na,\xff\n", "m.csv:2: not UTF-8"),
        ("m.json", b'[{"id": "a"} {"id": "b"}]', "m.json:1: not JSON: Expecting ',' delimiter or ']' at column 14"),
        ("m.json", b'[{"id": "a"},\n nul]', "m.json:2: not JSON: Expecting value at column 2"),
        ("m.json", b'[{"id": "a"}\n]\n[7]', "m.json: the JSON array is followed by '[7]'"),
        ("m.json", b'[{"id": "a"}', "m.json:1: not JSON"),
        ("m.json", b"[" * 100_000, "nested too deeply"),
        ("m.json", b'["\xff"]', "not UTF-8 at byte 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    with pytest.raises(ImportFileError) as refused:
        lines(tmp_path, content, name=name)
    assert why in str(refused.value)


def test_there_must_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match=r"none\.csv: No such file"):
        import_lines(tmp_path / "none.csv", PLAIN, tmp_path)
