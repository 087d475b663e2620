"""Imports: formats, mappings, batches of lines, progress, and the sending of batches."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.contracts import ErrorInfo, MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import ClientError, ImportFileError, ReplyTimeout
from orion_recall.memory.record.record import CopyPosition
from orion_recall.memory.transfer import importer
from orion_recall.memory.transfer.importer import (
    ImportMapping,
    ImportSummary,
    import_file,
    map_record,
    read_batches,
    read_mapping,
    wait_for_copies,
)

PLAIN = ImportMapping()


def write(path: Path, *lines: str | bytes) -> Path:
    file = path / "memories.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return file


def good(name: str) -> str:
    return json.dumps({"id": name, "text": f"text of {name}"})


# Lines


def test_bad_lines_are_problems_with_file_line_and_reason_and_the_others_go_on(tmp_path: Path) -> None:
    file = write(
        tmp_path, b"\xef\xbb\xbf" + good("a").encode(), "{", "", "[1]", b"\xff\xfe", '{"id": "b"}',
        '{"id":"c","text":"x","n":NaN}', "[" * 20_000, '{"id":"d","text":"x","n":' + "9" * 5000 + "}", good("e"),
        '{"id":"f","text":""}', json.dumps({"id": "a\x00", "text": "x"}),
    )  # fmt: skip
    [batch] = read_batches(file, PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["a", "e"]
    assert batch.lines == [1, 10]
    assert [problem.line for problem in batch.problems] == [2, 4, 5, 6, 7, 8, 9, 11, 12]
    reasons = [str(problem) for problem in batch.problems]
    wanted = (
        "not JSON",
        "one JSON object a line",
        "not UTF-8 at byte 0",
        "text: Field required",
        "NaN",
        "nested too",
    )
    for reason, part in zip(reasons, wanted, strict=False):
        assert part in reason
    assert "text: String should have at least 1 character" in reasons[7], "it is there"
    assert "id: a name may hold neither NUL" in reasons[8]
    [batch] = read_batches(file, PLAIN, called="what was piped")
    assert str(batch.problems[0]).startswith("what was piped:2: not JSON")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "a", "text": "one", "text": "two"}', "the field 'text' is given twice"),
        ('{"id": "a", "text": "x", "metadata": {"b": 1, "b": 2}}', "the field 'b' is given twice"),
        ('{"id": "a", "text": "x", "n": -' + "9" * 5000 + "}", "a number is too long: .*"),
        ('{"id": "a", "text": "x", "confidence": true}', r"confidence: expected a number \(got True\)"),
        ('{"id": "a", "text": "x", "n": 1e400}', "the number 1e400 is too large"),
        ('{"id": "a", "text": "x", "n": ' + "[" * 120 + "]" * 120 + "}", "the JSON is nested more than 90 .*"),
        (good("a" * 1000), "the line is longer than 900 bytes"),
    ],
)
def test_nothing_of_a_line_is_dropped_silently_and_it_costs_only_itself(
    tmp_path: Path, line: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "longer" in why:
        monkeypatch.setattr(importer, "MAX_LINE_BYTES", 900)
    (batch,) = read_batches(write(tmp_path, line, good("m")), PLAIN)
    assert [memory["id"] for memory in batch.memories] == ["m"]
    assert re.fullmatch(why, batch.problems[0].reason)


def test_a_naive_time_stops_the_import_at_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, good("a"), '{"id":"b","text":"x","occurred_at":"2026-01-01T10:00:00"}')
    with pytest.raises(ImportFileError, match=r":2: occurred_at: .* give --timezone"):
        list(read_batches(file, PLAIN))
    [batch] = read_batches(file, read_mapping(timezone="UTC"))
    assert batch.memories[1]["occurred_at"] == "2026-01-01T10:00:00+00:00"


@given(count=st.integers(0, 30), batch_size=st.integers(1, 10))
def test_every_line_is_in_one_batch(tmp_path: Path, count: int, batch_size: int) -> None:
    file = write(tmp_path, *[good(f"é{index}") if index % 4 else '{"bad"' for index in range(count)])
    batches = list(read_batches(file, PLAIN, batch_size=batch_size))
    seen = [line for batch in batches for line in batch.lines]
    bad = [problem.line for batch in batches for problem in batch.problems]
    assert seen == [index + 1 for index in range(count) if index % 4]
    assert bad == [index + 1 for index in range(count) if index % 4 == 0]


def test_the_summary_counts_lines_and_names_the_line_of_a_verdict(tmp_path: Path) -> None:
    file = write(tmp_path, good("a"), "bad", good("b"), good("c"))
    [batch] = read_batches(file, PLAIN)
    summary = ImportSummary(file=str(file))
    results = [
        MemoryVerdictV1(id="a", status="stored"),
        MemoryVerdictV1(id="b", status="conflict", reason="other content"),
        MemoryVerdictV1(id="c", status="rejected", reason="memories.2.kind: 'gossip' is no kind of memory"),
    ]
    summary.add(batch, MemoryReceiptV1(stored=1, unchanged=0, conflict=1, rejected=1, results=results))
    assert (
        summary.describe() == f"{file}: 4 lines read, 1 stored, 0 unchanged, 1 in conflict, 2 rejected; "
        "3 without a date (occurred_at: see --map)"
    )
    assert [problem.line for problem in summary.problems] == [2, 3, 4]
    assert summary.problems[2].reason == "rejected 'c': kind: 'gossip' is no kind of memory"
    for part in read_batches(write(tmp_path, *['{"bad"'] * 150), PLAIN, batch_size=40):
        summary.add(part, None)
    assert (summary.read, summary.rejected, len(summary.problems)) == (154, 152, 100)


# Mappings


@pytest.mark.parametrize(
    ("mapping", "line", "memory"),
    [
        (
            "id=memory_id, tenant=conversation_id",
            {"memory_id": "m1", "conversation_id": "c1", "text": "x", "dia_id": "D1:1", "caption": "", "n": None},
            {"id": "m1", "tenant": "c1", "text": "x", "metadata": {"dia_id": "D1:1"}},
        ),
        (
            "text=body.content.plain,id=key.id",
            {"key": {"id": 7}, "body": {"content": {"plain": "x"}, "lang": "en"}},
            {"id": "7", "text": "x", "metadata": {"body": {"content": {}, "lang": "en"}}},
        ),
        (
            "text=a.b",
            {"a.b": "plain", "a": {"b": "inner"}},
            {"text": "plain", "metadata": {"a": {"b": "inner"}}},
        ),
        (
            "id=memory_id",
            {"id": "row-1", "memory_id": "m1"},
            {"id": "m1", "metadata": {"id": "row-1"}},
        ),
        ("", {"id": "a", "metadata": {"n": 1}, "n": 2}, {"id": "a", "metadata": {"n": 1, "n_": 2}}),
        ("", {"tags": "one"}, {"tags": ["one"]}),
        ("", {"tags": ["a", 2, ""]}, {"tags": ["a", "2"]}),
    ],
)  # fmt: skip
def test_fields_are_mapped_and_nothing_is_lost(mapping: str, line: dict[str, Any], memory: dict[str, Any]) -> None:
    assert map_record(line, read_mapping(mapping)) == memory


@pytest.mark.parametrize(
    ("asked", "zone", "message"),
    [
        ("ocurred_at=when", None, "did you mean occurred_at"),
        ("qqq=when", None, "there are id, text"),
        ("id", None, "field=source_field"),
        ("id=", None, "field=source_field"),
        ("id=a,id=b", None, "given twice"),
        ("", "europe/oslow", "not a time zone: give an IANA name"),
    ],
)
def test_a_wrong_mapping_says_what_to_write(asked: str, zone: str | None, message: str) -> None:
    with pytest.raises(ImportFileError, match=message):
        read_mapping(asked, timezone=zone)


# Formats


def read(
    tmp_path: Path, content: str | bytes, name: str = "m.csv", mapping: ImportMapping = PLAIN
) -> tuple[list[dict[str, Any]], list[str]]:
    """The memories, and the problems of what could not be one."""
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    batches = list(read_batches(file, mapping, called=name))
    return [one for batch in batches for one in batch.memories], [
        str(one) for batch in batches for one in batch.problems
    ]


def test_a_csv_file_has_the_fields_of_memory_lines_and_rows_as_a_spreadsheet_counts_them(tmp_path: Path) -> None:
    memories, problems = read(
        tmp_path,
        "\ufeffid,text,tags,confidence,mood,occurred_at,metadata\r\n"
        'a,"The crane, ""big"",\nis repaired.","harbour; quay",0.5,calm,2026-03-01T10:00:00Z,"{""n"": 1}"\r\n'
        "\r\n"
        "b,fine,,,,1772366400,\r\n"
        ",no id,,,,,\r\n"
        "c,short\r\n"
        f"d,deep,,,,,{'[' * 20_000}\r\n",
    )
    assert memories == [
        {
            "id": "a", "text": 'The crane, "big",\nis repaired.', "tags": ["harbour", "quay"], "confidence": "0.5",
            "occurred_at": "2026-03-01T10:00:00Z", "metadata": {"n": 1, "mood": "calm"},
        },
        {"id": "b", "text": "fine", "occurred_at": 1772366400},
    ]  # fmt: skip
    assert [problem.partition(":")[0] for problem in problems] == ["m.csv, row 5", "m.csv, row 6", "m.csv, row 7"]
    assert problems[1] == "m.csv, row 6: the row has 2 values, and the header 7 columns"


def test_an_alias_is_used_where_the_field_itself_is_absent(tmp_path: Path) -> None:
    memories, _ = read(tmp_path, "id,key,text,body\na,k,fine,b\n")
    assert memories == [{"id": "a", "text": "fine", "metadata": {"key": "k", "body": "b"}}]
    mapping = read_mapping("id=nr,text=said", timezone="UTC")
    memories, _ = read(tmp_path, "nr,said,date\n7,fine,2026-03-01\n", mapping=mapping)
    assert memories == [{"id": "7", "text": "fine", "occurred_at": "2026-03-01T00:00:00+00:00"}]


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\u00a0"])
def test_a_json_array_is_read_item_by_item(tmp_path: Path, sign: str) -> None:
    item = f'{{"memory_id": "c", "content": "one{sign}two", "mood": "calm"}}'
    content = f' [\n {{"memory_id": "a",\n  "content": "one, two"}},\n 7,\n {item}\n]\n'
    memories, problems = read(tmp_path, content, name="m.json")
    assert memories == [
        {"id": "a", "text": "one, two"},
        {"id": "c", "text": f"one{sign}two", "metadata": {"mood": "calm"}},
    ]
    assert problems == ["m.json, item 2: expected one JSON object a line"]
    assert read(tmp_path, " [ ] ", name="m.json") == ([], [])


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("m.jsonl", b"<?xml version='1.0'?>\n<memories/>\n", "its format is not imported: give JSON lines"),
        ("m.jsonl", "id,text\na,b\n".encode("utf-16"), "its format is not imported"),
        ("m.jsonl", b"Dear diary,\ntoday nothing happened.\n", "its format is not imported"),
        ("m.jsonl", b'{\n  "id": "a",\n  "text": "x"\n}\n', "its format is not imported"),
        ("m.json", b'{\n  "notes": [{"id": "a", "body": "x"}]\n}\n', "give the list: `jq .NAME FILE |"),
        (
            "m.csv",
            b"a,b\n1,2\n",
            "m.csv:1: no column gives id: call one id, or give `import` --map id=COLUMN, one of a, b",
        ),
        ("m.csv", b"id,text,id\n1,2,3\n", "m.csv:1: the column 'id' is there twice"),
        ("m.csv", b'id,text\na,"b\n', "m.csv:2: not CSV: unexpected end of data"),
        ("m.csv", b"id,text\na,\xff\n", "m.csv: not UTF-8"),
        ("m.json", b'[{"id": "a"},\n nul]', "m.json: not JSON: Expecting value at line 2, column 2"),
        ("m.json", b'[{"id": "a"}', "m.json: not JSON"),
        ("m.json", b'[{"id": "a", "id": "b"}]', "m.json: the field 'id' is given twice"),
        ("m.json", b"[" * 100_000, "nested too deeply"),
        ("m.json", b'["\xff"]', "m.json: not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    with pytest.raises(ImportFileError) as refused:
        read(tmp_path, content, name=name)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"notes": [{"id": "a", "body": "x"}]}', "it holds objects under 'notes': make a line with id and"),
        ('[{"title": "t", "pages": {"n": {"page": {"id": "b"}}}}]', "it holds objects under 'pages'"),
        ('[{"uuid": "c", "entries": [{"said": "x"}]}]', "it holds objects under 'entries'"),
        ('{"id": "a", "metadata": {"b": {"c": 1}}}', "text: Field required"),
        ('{"text": "x", "parts": [{"c": 1}]}', "id: Field required"),
    ],
)
def test_of_a_line_that_holds_the_memories_the_place_is_named(tmp_path: Path, content: str, why: str) -> None:
    memories, (problem,) = read(tmp_path, content, name="m.json")
    assert memories == []
    assert why in problem
    assert ("it holds objects" in problem) == ("holds" in why)


# Sending


class Client:
    """Answers batches; one that holds `broken` fails."""

    def __init__(self, *, broken: str = "", refused: str = "") -> None:
        self.stored: list[str] = []
        self._broken, self._refused = broken, refused

    async def store(self, memories: Sequence[Mapping[str, Any]]) -> MemoryReceiptV1:
        ids = [str(memory["id"]) for memory in memories]
        await asyncio.sleep(0)
        if self._broken in ids:
            raise ReplyTimeout("late")
        self.stored += ids
        return MemoryReceiptV1(
            stored=len(ids),
            unchanged=0,
            conflict=0,
            rejected=0,
            position=10 * int(ids[-1]),
            results=[MemoryVerdictV1(id=name, status="stored") for name in ids],
            error=ErrorInfo(type="refused", message=self._refused) if self._refused else None,
        )


def written(folder: Path, count: int) -> Path:
    return write(folder, *("bad" if n == 3 else good(str(n)) for n in range(count)))


async def test_every_line_is_stored_and_the_last_position_is_given(tmp_path: Path) -> None:
    client = Client()
    done = await import_file(client.store, written(tmp_path, 25), batch_size=4)
    assert sorted(map(int, client.stored)) == [n for n in range(25) if n != 3]
    assert (done.stored, done.rejected, done.read, done.position) == (24, 1, 25, 240)


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_an_import_that_fails_raises_the_error_and_leaves_nothing_running(tmp_path: Path) -> None:
    with pytest.raises(ReplyTimeout):
        await import_file(Client(broken="13").store, written(tmp_path, 30), batch_size=4)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_batch_that_is_refused_ends_the_import_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="lines up to 3 were not stored: no record"):
        await import_file(Client(refused="no record").store, written(tmp_path, 3))


async def test_a_copy_that_does_not_move_is_named_and_one_that_is_gone_is_not_waited_for() -> None:
    looks = 0

    async def positions(*, index_b: int) -> list[CopyPosition]:
        nonlocal looks
        looks += 1
        told = {"index-a": 9, "graph-a": 9, "index-b": index_b, "index-gone": 2, "graph-gone": 9}
        return [
            CopyPosition(
                copy=name, kind=name[:5], position=at, updated_at=looks, silent_s=86_400.0 * ("gone" in name)
            )
            for name, at in told.items()
        ]

    waited = await wait_for_copies(partial(positions, index_b=2), 9, stalled_s=0.2)
    assert [one.copy for one in waited.lagging] == ["index-b"]
    assert ([one.copy for one in waited.gone], waited.caught_up) == (["index-gone"], False)
    looks = 0
    waited = await wait_for_copies(partial(positions, index_b=9), 9)
    assert (looks, waited.caught_up) == (1, True)
